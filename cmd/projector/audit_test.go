package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopd/loopd/replay"
)

// audit runs projector audit over lines, and wants an exit status.
func audit(t *testing.T, status int, lines string, flags ...string) (stdout, stderr string) {
	t.Helper()
	var out, talked bytes.Buffer
	got := run(t.Context(), append([]string{"audit", "--input", "-"}, flags...), strings.NewReader(lines), &out, &talked)
	if got != status {
		t.Fatalf("audit %v: exit status %d, want %d\n%s%s", flags, got, status, &out, &talked)
	}
	return out.String(), talked.String()
}

// lines are generated events as export writes them.
func lines(t *testing.T, seed, n uint64) []string {
	t.Helper()
	var b bytes.Buffer
	for rec, err := range generate(seed, n, 4, "loop") {
		if err == nil {
			err = replay.WriteJSONL(&b, rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func TestAuditOfALog(t *testing.T) {
	p := newPlace(t)
	p.write(1, 500)
	audit := func(status int, flags ...string) (string, string) {
		t.Helper()
		var out, talked talk
		got := run(t.Context(), append([]string{"audit", "--nats", p.server.ClientURL()}, flags...), strings.NewReader(""), &out, &talked)
		if got != status {
			t.Fatalf("exit status %d, want %d\n%s%s", got, status, &out, &talked)
		}
		return out.String(), talked.String()
	}
	out, _ := audit(exitHeld)
	requireText(t, out, "500 events of ", ", 0 findings")

	if _, err := p.js.Publish(t.Context(), "loop.ev.bad.job.queued", []byte("{")); err != nil {
		t.Fatal(err)
	}
	out, talked := audit(exitNotHeld, "--json")
	requireText(t, out, `"rule":"E2"`, `"session":"bad"`, `"stream_seq":501`, `{"summary":{"records":501,`)
	requireText(t, talked, "1 findings in 501 events")
	audit(exitHeld, "--session", "g1-0000001")
	audit(exitNotHeld, "--session", "bad")

	// An event that was removed is a proven hole, and breaks its chain.
	if err := p.stream().DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	out, talked = audit(exitNotHeld)
	requireText(t, out, "E1 at ")
	requireText(t, talked, "events 3 to 3 are missing: deleted, as the server says")
	audit(exitUnasked, "--input", "-") // two places
}

func TestAuditOfAFile(t *testing.T) {
	all := lines(t, 1, 200)
	out, _ := audit(t, exitHeld, strings.Join(all, ""))
	requireText(t, out, "200 events of ", ", 0 findings")

	// One changed byte: it still decodes, and the chain knows.
	changed := append([]string{}, all...)
	changed[0] = strings.Replace(changed[0], `"openai/chat/gpt-large"`, `"openai/chat/gpt-largE"`, 1)
	if changed[0] == all[0] {
		t.Fatal("nothing was changed in", all[0])
	}
	out, _ = audit(t, exitNotHeld, strings.Join(changed, ""), "--json")
	requireText(t, out, `"rule":"E1"`, `"session":"g1-0000001"`, `"by_rule":{"E1":1}`)
	audit(t, exitNotHeld, strings.Join(changed, ""), "--session", "g1-0000001")
	audit(t, exitHeld, strings.Join(changed, ""), "--session", "g1-0000002")

	// The schema of a type is held too.
	odd := append([]string{}, all...)
	last := len(odd) - 1
	odd[last] = strings.Replace(odd[last], `"version":1`, `"version":"1"`, 1)
	out, _ = audit(t, exitNotHeld, strings.Join(odd, ""))
	requireText(t, out, "E2 at 200")
}

func TestAuditOfWhatCannotBeRead(t *testing.T) {
	all := lines(t, 1, 3)
	out, talked := audit(t, exitUnasked, all[0]+all[1]+"nonsense\n", "--json")
	requireText(t, talked, "line 3")
	if strings.Contains(out, "summary") {
		t.Fatalf("a summary of a file that was not read: %s", out)
	}
	var said talk
	missing := filepath.Join(t.TempDir(), "missing.jsonl")
	if got := run(t.Context(), []string{"audit", "--input", missing}, strings.NewReader(""), &said, &said); got != exitUnasked {
		t.Fatal(got, said.String())
	}
	file := filepath.Join(t.TempDir(), "log.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(all, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t.Context(), []string{"audit", "--input", file}, strings.NewReader(""), &said, &said); got != exitHeld {
		t.Fatal(got, said.String())
	}
}
