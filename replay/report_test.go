package replay

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopd/loopd/event"
)

func TestReportTellsFindingsAndASummary(t *testing.T) {
	broken := twoTurns().drop(event.TypeGenerationFinished, 0).records()
	var text, lines strings.Builder
	sum, err := Report(&text, feed(broken), Config{}, false)
	if err != nil || sum.Findings == 0 || !strings.Contains(text.String(), " × G1: ") {
		t.Fatalf("%+v %v\n%s", sum, err, &text)
	}
	if _, err := Report(&lines, feed(broken), Config{}, true); err != nil {
		t.Fatal(err)
	}
	told := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if uint64(len(told)) != sum.Findings+1 || !strings.HasPrefix(told[len(told)-1], `{"summary":{`) {
		t.Fatalf("%s", &lines)
	}
}

func TestReportOfABrokenFeedHasNoSummary(t *testing.T) {
	gone := errors.New("gone")
	var out strings.Builder
	_, err := Report(&out, func(yield func(event.Record, error) bool) { yield(event.Record{}, gone) }, Config{}, true)
	if !errors.Is(err, gone) || out.Len() > 0 {
		t.Fatalf("%v %s", err, &out)
	}
}

func TestReportStaysOnItsLines(t *testing.T) {
	var out strings.Builder
	bad := []event.Record{{StreamSeq: 1, Subject: "loop.ev.a\x1b[2J\nb.job.queued", Data: []byte("{")}}
	if _, err := Report(&out, feed(bad), Config{}, false); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(out.String(), '\x1b') || strings.Count(out.String(), "\n") != 3 {
		t.Fatalf("%q", out.String())
	}
}

func TestOfSession(t *testing.T) {
	records := simple().records()
	records = append(records, event.Record{Subject: "loop.ev.other.job.queued", Data: []byte("{")})
	for session, want := range map[string]int{"": len(records), "s": len(records) - 1, "other": 1, "nobody": 0} {
		n := 0
		for range OfSession(feed(records), session, "loop") {
			n++
		}
		if n != want {
			t.Errorf("%q: %d records, want %d", session, n, want)
		}
	}
}
