package scenario

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/replay"
)

func TestScenariosHold(t *testing.T) {
	for _, file := range append(ours(t), shared(t)...) {
		t.Run(nameOf(file), func(t *testing.T) { holds(t, file, Options{}) })
	}
}

func TestEveryCrashHolds(t *testing.T) {
	files := append(ours(t), shared(t)...)
	if testing.Short() || underRace {
		files = in(t, "hold") // every file runs without crashes all the same
	}
	for _, file := range files {
		t.Run(nameOf(file), func(t *testing.T) {
			t.Parallel()
			if report := holds(t, file, Options{EveryCrash: true}); report.Crashes < 3*report.Events {
				t.Errorf("%d crashes for %d events", report.Crashes, report.Events)
			}
		})
	}
}

// nameOf is a file's folder and name, since files of two folders may share one.
func nameOf(file string) string {
	return filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file))
}

func holds(t *testing.T, file string, o Options) Report {
	t.Helper()
	sc, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), sc, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Error(f.in(file))
	}
	return report
}

func TestMainNamesWhatDoesNotHold(t *testing.T) {
	for name, tc := range map[string]struct {
		exit int
		want []string // on stderr: a line each, in this order
	}{
		"fail/expect.yaml": {ExitNotHeld, []string{
			`:6: request 1: the context must contain the text "goodbye"`,
			`:9: expect {type: generation.finished, text: Bye.}: no such event after event 0; event 10 comes closest, but its text is Hi., not Bye.`,
			`:11: never {type: session.idle}: it is event 11`,
			`:13: count {type: operation.admitted, n: 2}: 1 events match`,
			`:14: effects: look ran 0 times, not 1`,
			`:15: requests: the provider was asked 1 times, not 3`,
			`:17: projection {input: in-1, state: held}: its state is delivered, not held`,
			`:18: projection {input: in-9, state: held}: there is no input in-9`,
		}},
		"fail/step.yaml":   {ExitNotHeld, []string{`:4: await {type: generation.failed, timeout: 300ms}: not within 300ms`}},
		"fail/beyond.yaml": {ExitNotHeld, []string{`:10: tools: a call of look beyond the last of its 0 entries`, `:7: a request beyond the last of the 1 provider entries`}},
		"fail/name.yaml":   {ExitNotHeld, []string{`:3: submit: $job is not bound`}},
		"fail/owner.yaml":  {ExitNotHeld, []string{`:3: no owner c runs`}},
		"unread/key.yaml":  {ExitUnread, []string{`:4: unknown key "waits" in a host step`}},
		"unread/type.yaml": {ExitUnread, []string{`:5: there is no event type "generation.began"`}},
		"unread/none.yaml": {ExitUnread, []string{`no such file`}},
	} {
		var out, errs bytes.Buffer
		file := filepath.Join("testdata", filepath.FromSlash(name))
		if exit := Main(t.Context(), []string{file}, Options{}, &out, &errs); exit != tc.exit {
			t.Errorf("%s: exit %d, want %d", name, exit, tc.exit)
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if len(lines) != len(tc.want) {
			t.Errorf("%s: stderr\n%s", name, errs.String())
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(lines[i], file) || !strings.Contains(lines[i], want) {
				t.Errorf("%s: stderr line %d is\n%s\nwant\n%s", name, i+1, lines[i], want)
			}
		}
		if !strings.HasSuffix(out.String(), "0 passed, 1 failed\n") {
			t.Errorf("%s: stdout %q", name, out.String())
		}
	}
}

func TestMainRunsFilesOneAfterAnother(t *testing.T) {
	plain, wrong := "testdata/hold/plain.yaml", "testdata/fail/owner.yaml"
	var out, errs bytes.Buffer
	if exit := Main(t.Context(), []string{plain, wrong, plain}, Options{}, &out, &errs); exit != ExitNotHeld {
		t.Errorf("exit %d", exit)
	}
	want := "ok    " + plain + "  a question is answered (11 events)\n" +
		"FAIL  " + wrong + "  there is no such owner\n" +
		"ok    " + plain + "  a question is answered (11 events)\n" +
		"2 passed, 1 failed\n"
	if out.String() != want {
		t.Errorf("stdout\n%s", out.String())
	}
}

func TestMainShowsATable(t *testing.T) {
	var out, errs bytes.Buffer
	if exit := Main(t.Context(), []string{"testdata/hold/await-and-hold.yaml"}, Options{}, &out, &errs); exit != ExitHeld {
		t.Fatalf("exit %d: %s", exit, errs.String())
	}
	for _, want := range []string{"   1  1  session.opened", "generation_id=$g", "operation_id=$o2", "text=Two.", "\n1 passed, 0 failed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestJsonlIsTheLogVerbatim(t *testing.T) {
	var jsonl, out, errs bytes.Buffer
	if exit := Main(t.Context(), []string{"testdata/hold/plain.yaml"}, Options{Jsonl: &jsonl}, &out, &errs); exit != ExitHeld {
		t.Fatalf("exit %d: %s", exit, errs.String())
	}
	if out.Len() > 0 || !strings.HasSuffix(errs.String(), "1 passed, 0 failed\n") {
		t.Errorf("stdout is left to the log, it has %q; stderr %q", out.String(), errs.String())
	}
	n, prev := uint64(0), ""
	for rec, err := range replay.ReadJSONL(&jsonl, replay.Config{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		e, err := event.Decode(rec.Data)
		if err != nil || rec.StreamSeq != n || e.Prev != prev || rec.Subject != "loop.ev.s."+string(e.Type) {
			t.Errorf("line %d: %v: %s", n, err, rec.Data)
		}
		prev = event.Digest(rec.Data)
	}
	if n != 11 {
		t.Errorf("%d lines", n)
	}
}

func TestKeepLeavesTheLog(t *testing.T) {
	dir := t.TempDir()
	files := []string{"testdata/hold/plain.yaml", "testdata/hold/clock.yaml"}
	var out, errs bytes.Buffer
	if exit := Main(t.Context(), files, Options{KeepDir: dir}, &out, &errs); exit != ExitHeld {
		t.Fatalf("exit %d: %s", exit, errs.String())
	}
	for _, name := range []string{"plain", "clock"} {
		if _, err := os.Stat(filepath.Join(dir, name, "nats", "jetstream")); err != nil {
			t.Error(err)
		}
	}
	if exit := Main(t.Context(), files[:1], Options{KeepDir: filepath.Join(dir, "plain")}, &out, &errs); exit != ExitUnread ||
		!strings.Contains(errs.String(), "begins with an empty one: choose another directory") {
		t.Errorf("a log that is there already: exit %d, %s", exit, errs.String())
	}
}
