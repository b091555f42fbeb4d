package event

import (
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Input is what a host sends (contract, section 3). Fields it does not name
// are kept in the raw input and count for its digest.
type Input struct {
	Version            int          `json:"version,omitzero"`
	InputID            string       `json:"input_id"`
	Kind               Kind         `json:"kind"`
	Text               string       `json:"text,omitzero"`
	Source             string       `json:"source,omitzero"`
	Target             string       `json:"target,omitzero"`
	TargetGenerationID string       `json:"target_generation_id,omitzero"`
	CallID             string       `json:"call_id,omitzero"`
	Attachments        []Attachment `json:"attachments,omitzero"`
	Task               *Task        `json:"task,omitzero"`
	Verdict            string       `json:"verdict,omitzero"`
	InputDigest        string       `json:"input_digest,omitzero"`
	SentAt             string       `json:"sent_at,omitzero"`
}

// Attachment is opaque to the loop: it is handed to the provider as it came.
type Attachment = jsontext.Value

// Task narrows the configured bounds for the work that an input begins; every
// field is optional, 0 is none.
type Task struct {
	ID          string  `json:"id,omitzero"`
	ExpiresAt   string  `json:"expires_at,omitzero"` // RFC 3339
	MaxSegments int     `json:"max_segments,omitzero"`
	MaxTokens   int64   `json:"max_tokens,omitzero"`
	MaxElapsed  string  `json:"max_elapsed,omitzero"` // a Go duration, "90s"
	MaxCost     float64 `json:"max_cost,omitzero"`
}

// Limits bound an input; the zero value means the defaults of the contract.
type Limits struct {
	Text  int // characters of text, default 16 000
	ID    int // characters of ids and source, default 128
	Depth int // objects and arrays inside each other, default 64
}

func (l Limits) withDefaults() Limits {
	if l.Text == 0 {
		l.Text = 16_000
	}
	if l.ID == 0 {
		l.ID = 128
	}
	if l.Depth == 0 {
		l.Depth = 64
	}
	return l
}

// ParseInput reads an input as a host sent it. Unknown fields are ignored
// here and kept by InputAccepted.Input.
func ParseInput(b []byte) (Input, error) {
	var in Input
	if err := json.Unmarshal(b, &in); err != nil {
		return Input{}, fmt.Errorf("event: input: %w", err)
	}
	return in, nil
}

// EffectiveSource is the source with its default filled in.
func (in Input) EffectiveSource() string {
	if in.Source == "" && in.Kind != KindService {
		return SourceUser
	}
	return in.Source
}

// InputDigest is the identity of an input's content (contract, section 3):
// over every field but version and sent_at, as sent; of bytes that do not
// parse as a JSON object, over the bytes.
func InputDigest(b []byte) string {
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(b, &fields); err != nil || fields == nil {
		return Digest(b)
	}
	delete(fields, "version")
	delete(fields, "sent_at")
	rest, err := json.Marshal(fields)
	if err != nil {
		return Digest(b)
	}
	canonical, err := Canonical(rest)
	if err != nil {
		return Digest(b)
	}
	return Digest(canonical)
}

// InvalidInputError says why an input is refused, and how to fix it.
type InvalidInputError struct {
	Reason string // RejectInvalid or RejectUnauthorizedSource
	Hint   string
}

func (e *InvalidInputError) Error() string { return "input " + e.Reason + ": " + e.Hint }

// Check holds an input against the limits of contract section 3 that need no
// session: fields, kinds, sources, lengths.
func (in Input) Check(limits Limits) error {
	limits = limits.withDefaults()
	checks := []error{
		in.checkKind(),
		in.checkIDs(limits),
		in.checkText(limits),
		in.checkSource(),
		in.checkFields(),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckDepth refuses an input that nests deeper than readers of the log can be
// asked to follow, whatever field it does that in.
func CheckDepth(b []byte, limits Limits) error {
	most, depth, quoted := limits.withDefaults().Depth, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return invalid("the input nests more than %d objects and arrays inside each other", most)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return &InvalidInputError{Reason: RejectInvalid, Hint: fmt.Sprintf(format, args...)}
}

func (in Input) checkKind() error {
	if !in.Kind.Content() && !in.Kind.Command() {
		return invalid("kind %q is not one of user, steer, service, decision, withdraw, cancel_job, interrupt, stop", in.Kind)
	}
	if in.Version != 0 && in.Version != Version {
		return invalid("version %d is not known here; send version 1", in.Version)
	}
	return nil
}

func (in Input) checkIDs(limits Limits) error {
	ids := []struct {
		name, value string
		required    bool
	}{
		{"input_id", in.InputID, true},
		{"source", in.Source, false},
		{"target", in.Target, false},
		{"target_generation_id", in.TargetGenerationID, false},
		{"call_id", in.CallID, false},
	}
	for _, id := range ids {
		n := utf8.RuneCountInString(id.value)
		if id.required && n == 0 {
			return invalid("%s is required", id.name)
		}
		if n > limits.ID {
			return invalid("%s has %d characters, at most %d are allowed", id.name, n, limits.ID)
		}
	}
	return nil
}

func (in Input) checkText(limits Limits) error {
	if n := utf8.RuneCountInString(in.Text); n > limits.Text {
		return invalid("text has %d characters, at most %d are allowed", n, limits.Text)
	}
	if in.Kind.Content() && blank(in.Text) {
		return invalid("text is blank; %s needs one", in.Kind)
	}
	return nil
}

func (in Input) checkSource() error {
	if in.Kind != KindService {
		if in.Source != "" && in.Source != SourceUser {
			return &InvalidInputError{Reason: RejectUnauthorizedSource,
				Hint: fmt.Sprintf("source %q may not send %s; only user may (send observations as kind service)", in.Source, in.Kind)}
		}
		return nil
	}
	switch in.Source {
	case "", SourceUser, "system", "developer":
		return &InvalidInputError{Reason: RejectUnauthorizedSource,
			Hint: fmt.Sprintf("source %q may not send service inputs; name the service", in.Source)}
	}
	return nil
}

func (in Input) checkFields() error {
	if len(in.Attachments) > 0 && in.Kind != KindUser && in.Kind != KindSteer {
		return invalid("attachments go with user and steer only, not with %s", in.Kind)
	}
	for i, a := range in.Attachments {
		if a.Kind() != '{' {
			return invalid("attachment %d is not a JSON object; send what the provider takes as a content part", i)
		}
	}
	if in.TargetGenerationID != "" && in.Kind != KindSteer && in.Kind != KindInterrupt {
		return invalid("target_generation_id goes with steer and interrupt only, not with %s", in.Kind)
	}
	switch in.Kind {
	case KindWithdraw, KindCancelJob:
		if in.Target == "" {
			return invalid("%s needs a target", in.Kind)
		}
	case KindDecision:
		if in.Target == "" {
			return invalid("decision needs a target: an invocation, operation or checkpoint id")
		}
		switch in.Verdict {
		case VerdictApprove, VerdictDeny, VerdictContinue, VerdictAbandon, VerdictReconciled, VerdictStillUnknown:
		default:
			return invalid("verdict %q is not one of approve, deny, continue, abandon, reconciled, still_unknown", in.Verdict)
		}
	case KindStop:
		if in.Target != "" && in.Target != TargetCancel {
			return invalid("target of stop is %q; only cancel is known", in.Target)
		}
	}
	return in.checkTask()
}

func (in Input) checkTask() error {
	t := in.Task
	if t == nil {
		return nil
	}
	if t.ExpiresAt != "" {
		if _, err := time.Parse(time.RFC3339Nano, t.ExpiresAt); err != nil {
			return invalid("task.expires_at %q is not RFC 3339", t.ExpiresAt)
		}
	}
	if t.MaxElapsed != "" {
		if d, err := time.ParseDuration(t.MaxElapsed); err != nil || d < 0 {
			return invalid("task.max_elapsed %q is not a duration such as 90s", t.MaxElapsed)
		}
	}
	if t.MaxSegments < 0 || t.MaxTokens < 0 || t.MaxCost < 0 {
		return invalid("task bounds must not be negative; leave one out for none")
	}
	return nil
}

// blank reports whether a text holds nothing but space, control and format
// characters.
func blank(s string) bool {
	for _, r := range s {
		if !unicode.In(r, unicode.Z, unicode.Cc, unicode.Cf) {
			return false
		}
	}
	return true
}

// AsInvalid is the refusal in err, if it holds one.
func AsInvalid(err error) (*InvalidInputError, bool) {
	var e *InvalidInputError
	ok := errors.As(err, &e)
	return e, ok
}
