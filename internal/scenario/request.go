package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loopd/loopd/loop"
)

// Check holds a request's context against what its provider entry expects, and
// says what does not hold.
func (r Request) Check(req loop.Request, inputs map[string]bool, names *Names) []string {
	var wrong []string
	for _, item := range r.Contains {
		if found, what := occurs(req, item, inputs, names); !found {
			wrong = append(wrong, fmt.Sprintf("the context must contain %s", what))
		}
	}
	for _, item := range r.NotContains {
		if found, what := occurs(req, item, inputs, names); found {
			wrong = append(wrong, fmt.Sprintf("the context must not contain %s", what))
		}
	}
	if rest := missingRoles(req, r.Roles); len(rest) > 0 {
		wrong = append(wrong, fmt.Sprintf("the context must have the roles %v in this order; from %s on they are missing (it has %v)",
			r.Roles, rest[0], roles(req)))
	}
	return wrong
}

// occurs looks for an input, or for a text, in the context.
func occurs(req loop.Request, item string, inputs map[string]bool, names *Names) (found bool, what string) {
	if _, ok := isName(item); ok {
		value, err := names.Resolve(item)
		id, ok := value.(string)
		if err != nil || !ok {
			return false, item + " (not bound)"
		}
		found = slices.ContainsFunc(req.Messages, func(m loop.Message) bool {
			return slices.Contains(m.InputIDs, id) || m.OperationID == id || says(m, id)
		})
		return found, fmt.Sprintf("%s = %s", item, id)
	}
	if inputs[item] {
		found = slices.ContainsFunc(req.Messages, func(m loop.Message) bool { return slices.Contains(m.InputIDs, item) })
		return found, "input " + item
	}
	found = slices.ContainsFunc(req.Messages, func(m loop.Message) bool { return says(m, item) })
	return found, fmt.Sprintf("the text %q", item)
}

func says(m loop.Message, text string) bool {
	if strings.Contains(m.Text, text) {
		return true
	}
	for _, c := range m.ToolCalls {
		if strings.Contains(c.Arguments, text) {
			return true
		}
	}
	return false
}

// missingRoles is what is left of want when the context has its roles in
// order, others between them allowed.
func missingRoles(req loop.Request, want []loop.Role) []loop.Role {
	for _, m := range req.Messages {
		if len(want) > 0 && m.Role == want[0] {
			want = want[1:]
		}
	}
	return want
}

func roles(req loop.Request) []loop.Role {
	out := make([]loop.Role, 0, len(req.Messages))
	for _, m := range req.Messages {
		out = append(out, m.Role)
	}
	return out
}
