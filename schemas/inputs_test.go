package schemas

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

var (
	longest = strings.Repeat("é", 128)
	tooLong = strings.Repeat("é", 129)
	digest  = event.Digest([]byte(`{}`))
)

// inputs are what hosts send, by kind; want is the field to blame, "" = good.
var inputs = []struct {
	kind, body, want string
	silent           bool // event.Input.Check does not speak of it
}{
	{"user", `{"input_id":"a","kind":"user","text":"hello"}`, "", false},
	{"user", `{"version":1,"input_id":"` + longest + `","kind":"user","text":" x ","source":"user","call_id":"c","attachments":[{},{"a":[]}],
		"task":{"id":"t","expires_at":"2026-01-01T00:00:00+02:00","max_segments":2,"max_tokens":9007199254740993,"max_elapsed":"1h30m","max_cost":0.5},
		"sent_at":"now","mood":"good"}`, "", false},
	{"user", `{"input_id":"a","kind":"user","text":" \t\n\r\u000b\f\u0085\u00a0\u2028\u2029\u3000\ufeff\u200b"}`, "text", false},
	{"user", `{"input_id":"a","kind":"user","text":""}`, "text", false},
	{"user", `{"input_id":"a","kind":"user"}`, "text", false},
	{"user", `{"input_id":"","kind":"user","text":"x"}`, "input_id", false},
	{"user", `{"kind":"user","text":"x"}`, "input_id", false},
	{"user", `{"input_id":"` + tooLong + `","kind":"user","text":"x"}`, "input_id", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","call_id":"` + tooLong + `"}`, "call_id", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","target":"` + tooLong + `"}`, "target", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","source":"weather"}`, "source", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","version":2}`, "version", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","target_generation_id":"g"}`, "target_generation_id", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"expires_at":"tomorrow"}}`, "task.expires_at", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"max_elapsed":"90"}}`, "task.max_elapsed", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"max_elapsed":"-90s"}}`, "task.max_elapsed", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"max_elapsed":"0"}}`, "", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"max_elapsed":".5m1.h2.25s3ms4us5µs6ns"}}`, "", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"max_segments":-1}}`, "task.max_segments", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"max_tokens":-1}}`, "task.max_tokens", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"max_cost":-0.1}}`, "task.max_cost", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","task":{"id":"` + tooLong + `"}}`, "task.id", true},

	{"steer", `{"input_id":"a","kind":"steer","text":"x","target_generation_id":"g","attachments":[{"p":1}]}`, "", false},
	{"steer", `{"input_id":"a","kind":"steer","text":" "}`, "text", false},
	{"steer", `{"input_id":"a","kind":"steer","text":"x","source":"system"}`, "source", false},
	{"steer", `{"input_id":"a","kind":"steer","text":"x","target_generation_id":"` + tooLong + `"}`, "target_generation_id", false},

	{"service", `{"input_id":"a","kind":"service","text":"rain","source":"weather"}`, "", false},
	{"service", `{"input_id":"a","kind":"service","text":"rain"}`, "source", false},
	{"service", `{"input_id":"a","kind":"service","text":"rain","source":""}`, "source", false},
	{"service", `{"input_id":"a","kind":"service","text":"rain","source":"user"}`, "source", false},
	{"service", `{"input_id":"a","kind":"service","text":"rain","source":"system"}`, "source", false},
	{"service", `{"input_id":"a","kind":"service","text":"rain","source":"developer"}`, "source", false},
	{"service", `{"input_id":"a","kind":"service","text":"rain","source":"` + tooLong + `"}`, "source", false},
	{"user", `{"input_id":"a","kind":"user","text":"x","attachments":[1]}`, "attachments[0]", false},
	{"service", `{"input_id":"a","kind":"service","text":"rain","source":"w","attachments":[1]}`, "attachments", false},
	{"service", `{"input_id":"a","kind":"service","text":"","source":"w"}`, "text", false},

	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"approve","input_digest":"` + digest + `"}`, "", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"deny"}`, "", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"reconciled","text":"it was paid"}`, "", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"still_unknown","attachments":[]}`, "", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"k","verdict":"continue"}`, "", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"k","verdict":"abandon"}`, "", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"maybe"}`, "verdict", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v"}`, "verdict", false},
	{"decision", `{"input_id":"a","kind":"decision","verdict":"deny"}`, "target", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"deny","source":"weather"}`, "source", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"deny","target_generation_id":"g"}`, "target_generation_id", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"approve"}`, "", false},
	{"decision", `{"input_id":"a","kind":"decision","target":"v","verdict":"approve","input_digest":"abc"}`, "", false},

	{"withdraw", `{"input_id":"a","kind":"withdraw","target":"b"}`, "", false},
	{"withdraw", `{"input_id":"a","kind":"withdraw"}`, "target", false},
	{"withdraw", `{"input_id":"a","kind":"withdraw","target":""}`, "target", false},
	{"withdraw", `{"input_id":"a","kind":"withdraw","target":"b","attachments":[1]}`, "attachments", false},

	{"cancel_job", `{"input_id":"a","kind":"cancel_job","target":"j"}`, "", false},
	{"cancel_job", `{"input_id":"a","kind":"cancel_job"}`, "target", false},

	{"interrupt", `{"input_id":"a","kind":"interrupt"}`, "", false},
	{"interrupt", `{"input_id":"a","kind":"interrupt","target_generation_id":"g"}`, "", false},
	{"interrupt", `{"input_id":"a","kind":"interrupt","source":"weather"}`, "source", false},

	{"stop", `{"input_id":"a","kind":"stop"}`, "", false},
	{"stop", `{"input_id":"a","kind":"stop","target":"cancel"}`, "", false},
	{"stop", `{"input_id":"a","kind":"stop","target":"finish"}`, "target", false},
	{"stop", `{"input_id":"a","kind":"stop","target_generation_id":"g"}`, "target_generation_id", false},

	{"user", `{"input_id":"a","kind":"steer","text":"x"}`, "kind", true},
	{"user", `{"input_id":"a","kind":"shout","text":"x"}`, "kind", false},
	{"user", `{"input_id":"a","text":"x"}`, "kind", false},
	{"shout", `{"input_id":"a","kind":"shout","text":"x"}`, "kind", false},
}

func TestInputsAgreeWithCheck(t *testing.T) {
	good := map[string]bool{}
	for _, c := range inputs {
		err := loaded.Input(c.kind, []byte(c.body))
		var invalid *ValidationError
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", c.body, err)
		case c.want != "" && !errors.As(err, &invalid):
			t.Errorf("%s: not refused, want a fault at %s", c.body, c.want)
		case c.want != "" && invalid.Field != c.want:
			t.Errorf("%s: %v, want a fault at %s", c.body, err, c.want)
		}
		good[c.kind] = good[c.kind] || c.want == ""

		in, err := event.ParseInput([]byte(c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		check := in.Check(event.Limits{})
		if wantErr := c.want != "" && !c.silent; (check != nil) != wantErr {
			t.Errorf("%s: Check says %v, the schema blames %q", c.body, check, c.want)
		}
	}
	for _, kind := range loaded.InputKinds() {
		if !good[kind] {
			t.Errorf("no good input of kind %s was tried", kind)
		}
	}
	var kinds []string
	for _, k := range []event.Kind{event.KindUser, event.KindSteer, event.KindService, event.KindDecision,
		event.KindWithdraw, event.KindCancelJob, event.KindInterrupt, event.KindStop} {
		kinds = append(kinds, string(k))
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, loaded.InputKinds()) {
		t.Errorf("kinds %v, want %v", loaded.InputKinds(), kinds)
	}
}

func TestInputRefusesBrokenShapes(t *testing.T) {
	for body, field := range map[string]string{
		`{"input_id":1,"kind":"user","text":"x"}`:                             "input_id",
		`{"input_id":"a","kind":"user","text":["x"]}`:                         "text",
		`{"input_id":"a","kind":"user","text":"x","attachments":{}}`:          "attachments",
		`{"input_id":"a","kind":"user","text":"x","task":[]}`:                 "task",
		`{"input_id":"a","kind":"user","text":"x","task":{"max_tokens":1.5}}`: "task.max_tokens",
		`{"input_id":"a","kind":"user","text":"x","text":"y"}`:                "",
		`["user"]`: "",
		``:         "",
	} {
		var invalid *ValidationError
		if err := loaded.Input("user", []byte(body)); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v, want a fault at %q", body, err, field)
		}
	}
}
