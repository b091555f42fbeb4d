package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	maxHint  = 240 // bytes of a hint
	maxValue = 48  // bytes of a value, or of a field's name, within a hint
)

// ValidationError says where data leaves its schema, for a person: the first
// place, in a fixed order, and how many others there are.
type ValidationError struct {
	Schema string // event type, or "input" and the kind
	Field  string // for example bounds.max_cost or input_ids[2]; "" is the whole object
	Hint   string // what is wanted and what came; at most 240 bytes
	More   int    // how many other places are wrong
}

func (e *ValidationError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "schemas: %s: ", e.Schema)
	if e.Field != "" {
		fmt.Fprintf(&b, "%s: ", e.Field)
	}
	b.WriteString(e.Hint)
	if e.More > 0 {
		fmt.Fprintf(&b, " (and %d more)", e.More)
	}
	return b.String()
}

// invalid makes a ValidationError within its limits.
func invalid(schema, field, hint string) *ValidationError {
	return &ValidationError{Schema: clip(schema, 2*maxValue), Field: clip(field, 2*maxValue), Hint: clip(hint, maxHint)}
}

// explain makes a ValidationError of the validator's answer, nil of nil.
func explain(name string, err error) error {
	if err == nil {
		return nil
	}
	var tree *jsonschema.ValidationError
	if !errors.As(err, &tree) {
		return invalid(name, "", err.Error())
	}
	var faults []fault
	collect(tree, &faults)
	slices.SortFunc(faults, fault.compare)
	faults = slices.Compact(faults)
	first := invalid(name, faults[0].field, faults[0].hint)
	first.More = len(faults) - 1
	return first
}

// fault is one place where the data leaves its schema.
type fault struct{ field, hint string }

// compare puts what says which schema counts first: with a wrong version, type
// or kind all else is noise.
func (f fault) compare(g fault) int {
	if d := f.rank() - g.rank(); d != 0 {
		return d
	}
	return strings.Compare(f.field+"\x00"+f.hint, g.field+"\x00"+g.hint)
}

func (f fault) rank() int {
	switch f.field {
	case "version", "type", "kind":
		return 0
	}
	return 1
}

// collect gathers the leaves of the validator's tree.
func collect(e *jsonschema.ValidationError, faults *[]fault) {
	field := fieldName(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, missing := range k.Missing {
			*faults = append(*faults, fault{fieldName(append(slices.Clone(e.InstanceLocation), missing)), "is required, and missing"})
		}
		return
	case *kind.Not:
		*faults = append(*faults, fault{field, "this value is not allowed here"})
		return
	}
	if len(e.Causes) == 0 {
		*faults = append(*faults, fault{field, hint(e.ErrorKind)})
		return
	}
	for _, cause := range e.Causes {
		collect(cause, faults)
	}
}

// hint says what one keyword wanted and what came.
func hint(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "want " + strings.Join(k.Want, " or ") + ", got " + k.Got
	case *kind.Const:
		return "want " + describe(k.Want) + ", got " + describe(k.Got)
	case *kind.Enum:
		return "want one of " + list(k.Want) + ", got " + describe(k.Got)
	case *kind.Format:
		return "want a " + k.Want + ", got " + describe(k.Got)
	case *kind.Pattern:
		return "got " + quoted(k.Got) + ", want " + pattern(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("want at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("want at most %d characters, got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("want at most %d items, got %d", k.Want, k.Got)
	case *kind.Minimum:
		return "want " + k.Want.RatString() + " or more, got less"
	case *kind.Maximum:
		return "want " + k.Want.RatString() + " or less, got more"
	case *kind.FalseSchema:
		return "this field does not go here; leave it out"
	}
	return "breaks the rule " + strings.Join(k.KeywordPath(), "/")
}

// pattern says in words what a pattern of the files means; a test finds the
// ones that have no words.
func pattern(p string) string {
	switch {
	case strings.HasPrefix(p, "^[0-7][0-9A-H"):
		return "a ULID"
	case strings.HasPrefix(p, "^[A-Za-z0-9_-]{42}"), strings.HasPrefix(p, "^([A-Za-z0-9_-]{42}"):
		return "a SHA-256 in base64url without padding (43 characters)"
	case strings.HasPrefix(p, "^[0-9]{4}-"):
		return "an RFC 3339 time in UTC such as 2026-01-01T00:00:00.000000Z"
	case strings.HasPrefix(p, "^(0|(("):
		return "a duration such as 90s or 1h30m"
	case strings.HasPrefix(p, `[^\p{Z}`):
		return "text that is not blank"
	case strings.Contains(p, `+\.[`):
		return "family.transition"
	}
	return "a match of " + clip(p, maxValue)
}

func list(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ", ")
}

// describe names a value: short ones in full, lists and objects by their type.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return quoted(v)
	case json.Number:
		return clip(string(v), maxValue)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}

func quoted(s string) string { return strconv.Quote(clip(s, maxValue)) }

// clip cuts s to at most n bytes, at the border of a character.
func clip(s string, n int) string {
	const ellipsis = "…"
	if len(s) <= n {
		return s
	}
	cut := n - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

// fieldName writes a place as a person would: bounds.max_cost, input_ids[2].
func fieldName(place []string) string {
	var b strings.Builder
	for _, step := range place {
		if _, err := strconv.Atoi(step); err == nil {
			fmt.Fprintf(&b, "[%s]", step)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(clip(step, maxValue))
	}
	return b.String()
}
