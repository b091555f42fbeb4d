package eventlog

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/loopd/loopd/event"
)

func TestTokenRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9_-]{1,130}`),
			rapid.StringN(1, 128, MaxIDBytes),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, MaxIDBytes/4), func(b []byte) string { return strings.ToValidUTF8(string(b), "?") }),
		).Draw(t, "id")
		checkToken(t, id)
	})
}

func FuzzToken(f *testing.F) {
	for _, id := range []string{"a", "a.b", "~YQ", "*", ">", "", "\x00", "語", strings.Repeat("x", 129)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s != "" && len(s) <= MaxIDBytes && utf8.ValidString(s) {
			checkToken(t, s)
		}
		if id, ok := ID(s); ok { // s as a token: the only one of its id
			if again, err := Token(id); err != nil || again != s {
				t.Fatalf("token %q stands for %q, whose token is %q, %v", s, id, again, err)
			}
		}
	})
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkToken(t failer, id string) {
	t.Helper()
	token, err := Token(id)
	if err != nil {
		t.Fatalf("id %q: %v", id, err)
	}
	if strings.ContainsAny(token, ".*> \t\r\n\x00") || token == "" {
		t.Fatalf("id %q: token %q is not one token of a subject", id, token)
	}
	back, ok := ID(token)
	if !ok || back != id {
		t.Fatalf("id %q: token %q, back %q %v", id, token, back, ok)
	}
	s := subjects{"loop"}
	subject, err := s.event(id, event.TypeSessionOpened)
	if err != nil {
		t.Fatalf("id %q: %v", id, err)
	}
	if got, rest, ok := s.session(familyEvents, subject); !ok || got != id || rest != "session.opened" {
		t.Fatalf("subject %q: session %q, rest %q, %v", subject, got, rest, ok)
	}
	fence, err := s.ofSession(familyEvents, id)
	if err != nil || !strings.HasPrefix(subject, strings.TrimSuffix(fence, ">")) {
		t.Fatalf("fence %q does not cover %q: %v", fence, subject, err)
	}
	item, err := s.item(familyInbox, "s", id)
	if err != nil || s.input(item) != id {
		t.Fatalf("input %q of subject %q: %v", s.input(item), item, err)
	}
}

func TestSubjectsAreSpelledAsDesigned(t *testing.T) {
	s := subjects{"loop"}
	fence, err := s.ofSession(familyEvents, "s1")
	if err != nil || fence != "loop.ev.s1.>" {
		t.Errorf("fence %q, %v", fence, err)
	}
	subject, err := s.event("a.b", event.TypeGenerationFinished)
	if err != nil || subject != "loop.ev.~YS5i.generation.finished" {
		t.Errorf("event %q, %v", subject, err)
	}
	if got := []string{s.all(familyInbox), s.all(familyEvents), s.all(familyFrames), s.opened()}; !slices.Equal(got, []string{"loop.in.*.*", "loop.ev.*.*.*", "loop.op.*.*", "loop.ev.*.session.opened"}) {
		t.Errorf("%q", got)
	}
	if got := (subjects{"acme.loop"}).stream(familyEvents); got != "ACME_LOOP_EVENTS" {
		t.Errorf("stream %q", got)
	}
	for _, bad := range []event.Type{"", "session", "session.opened.x", "session.*", ".x", "x."} {
		if subject, err := s.event("s1", bad); err == nil {
			t.Errorf("type %q: subject %q", bad, subject)
		}
	}
}

// TestSecondSpellings: one id, one subject; else a second subject could carry
// the same identity past the inbox's own check.
func TestSecondSpellings(t *testing.T) {
	for _, token := range []string{"~", "~YQ", "~YQ==", "~Y Q", "~YS5j=", "~YS5", "~YS4v\n", "", "a b", "~" + strings.Repeat("A", 4096)} {
		if id, ok := ID(token); ok {
			t.Errorf("token %q stands for %q", token, id)
		}
	}
	if got := (subjects{"loop"}).input("loop.in.s1.~YQ"); got != "~YQ" {
		t.Errorf("an input under a second spelling has the id %q", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if err := (Config{}).withDefaults().validate(); err != nil {
		t.Fatalf("the zero value: %v", err)
	}
	for name, c := range map[string]Config{
		"two credentials":   {User: "u", Password: "p", Token: "t"},
		"password alone":    {Password: "p"},
		"certificate alone": {TLSCert: "c"},
		"prefix":            {Prefix: "a..b"},
		"wild prefix":       {Prefix: "a.*"},
		"long prefix":       {Prefix: strings.Repeat("x", 65)},
		"replicas":          {Replicas: -1},
		"storage":           {Storage: "tape"},
		"age":               {FramesMaxAge: -1},
		"timeout":           {RequestTimeout: 1},
		"attempts":          {Attempts: -1},
		"event bytes":       {MaxEventBytes: -1},
	} {
		if err := c.withDefaults().validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
