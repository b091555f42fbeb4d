package replay

import (
	"testing"
	"time"

	"github.com/loopd/loopd/event"
)

// stoppedChain is a turn that its segment bound ends, k3 being the checkpoint
// at which it stopped.
func stoppedChain() *script {
	f := finished("g1", "alpha beta gamma", "in-1")
	f.Continuation = &event.Continuation{State: "stopped", Reason: "segments_exhausted", Action: "continue", CheckpointID: "k3"}
	s := chain()
	i := s.index(event.TypeOperationDispatched, 2)
	s.facts = s.facts[:i+1]
	return s.answer("o3", "output_budget", " gamma").save("k3", "cutoff", "g1", "o3", 3, "alpha beta gamma").
		add(event.ContinuationStopped{CheckpointID: "k3", OperationID: "o3", Reason: "segments_exhausted", Action: "continue"}).
		save("k4", "final", "g1", "o3", 3, "alpha beta gamma").add(f)
}

// granted goes on from k3 by a decision.
func granted() *script {
	return stoppedChain().accept("go-1", "decision", "target", "k3", "verdict", "continue").add(started("g2", "go-1")).
		goOn("k3", "o3", "o4", "g2", 4).answer("o4", "stop", " delta").finish("g2", "o4", "alpha beta gamma delta")
}

func TestC1(t *testing.T) {
	keeps(t, "stopped at its bound", stoppedChain())
	keeps(t, "granted", granted())
	breaks(t, "C1", "claimed twice", chain().insert(event.TypeOperationAdmitted, 1, event.ContinuationStarted{CheckpointID: "k1", ParentOperationID: "o1", OperationID: "o9", Segment: 2}))
	breaks(t, "C1", "claimed, never saved", chain().drop(event.TypeCheckpointSaved, 0))
	breaks(t, "C1", "a final checkpoint", edit(chain(), 0, func(p *event.CheckpointSaved) { p.Kind = "final" }))
}

func TestC2(t *testing.T) {
	breaks(t, "C2", "after a stop", chain().insert(event.TypeContinuationStarted, 0, event.ContinuationStopped{CheckpointID: "k1", Reason: "time_exhausted"}))
	breaks(t, "C2", "by an input that decides nothing", edit(granted(), 1, func(p *event.GenerationStarted) { p.InitialInputID = "in-1" }), "C2")
	breaks(t, "C2", "beyond the segments", edit(chain(), 0, func(p *event.GenerationStarted) { p.Bounds.MaxSegments = 2 }))
	breaks(t, "C2", "beyond the tokens", edit(edit(chain(), 0, func(p *event.GenerationStarted) { p.Bounds.MaxTokens = 10 }), 1, func(p *event.CheckpointSaved) { p.Spent.Tokens = 10 }))
	breaks(t, "C2", "beyond the cost", edit(edit(chain(), 0, func(p *event.GenerationStarted) { p.Bounds.MaxCost = 1 }), 1, func(p *event.CheckpointSaved) { p.Spent.Cost = 1.5 }))
	breaks(t, "C2", "beyond the time", edit(edit(chain(), 0, func(p *event.GenerationStarted) { p.Bounds.MaxElapsedMS = 5 }), 1, func(p *event.CheckpointSaved) { p.Spent.ElapsedMS = 6 }))
	breaks(t, "C2", "after its authority ended", edit(chain(), 0, func(p *event.GenerationStarted) {
		p.Bounds.ExpiresAt = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	}), "C2")
	breaks(t, "C2", "without progress", edit(edit(edit(chain(), 0, func(p *event.GenerationStarted) { p.Bounds.NoProgress = 1 }),
		1, func(p *event.OperationCompleted) { p.Text = "" }), 1, func(p *event.CheckpointSaved) {
		p.Delivered = event.Delivered{Bytes: 5, Digest: event.Digest([]byte("alpha"))}
	}), "C3", "G4")
}

func TestC3(t *testing.T) {
	breaks(t, "C3", "another length", edit(chain(), 1, func(p *event.CheckpointSaved) { p.Delivered.Bytes-- }))
	breaks(t, "C3", "the last segment alone", edit(chain(), 1, func(p *event.CheckpointSaved) {
		p.Delivered = event.Delivered{Bytes: 5, Digest: event.Digest([]byte(" beta"))}
	}))
	breaks(t, "C3", "an invocation is left out", edit(decided(), 0, func(p *event.CheckpointSaved) { p.Invocations = nil }))
	breaks(t, "C3", "an invocation that was not completed", edit(chain(), 0, func(p *event.CheckpointSaved) { p.Invocations = []string{"v1"} }), "C3")
}

func TestC4(t *testing.T) {
	summary := func(change func(*event.ContextSummarized)) *script {
		s := decided()
		i := s.index(event.TypeOperationAdmitted, 1)
		p := event.ContextSummarized{ThroughSequence: event.Seq(i), Text: "x", Kept: event.Kept{Invocations: []string{"v1"}, Approvals: []string{"yes-1"}, Operations: []string{"o1"}}}
		change(&p)
		return s.insert(event.TypeOperationAdmitted, 1, p)
	}
	keeps(t, "all kept", summary(func(*event.ContextSummarized) {}))
	keeps(t, "approvals by invocation", summary(func(p *event.ContextSummarized) { p.Kept.Approvals = []string{"v1"} }))
	breaks(t, "C4", "no invocation", summary(func(p *event.ContextSummarized) { p.Kept.Invocations = nil }))
	breaks(t, "C4", "no approval", summary(func(p *event.ContextSummarized) { p.Kept.Approvals = nil }))
	breaks(t, "C4", "no operation", summary(func(p *event.ContextSummarized) { p.Kept.Operations = nil }))
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ text, next, want string }{
		{"", "", ""},
		{"abc", "", "abc"},
		{"", "abc", "abc"},
		{"one two", " three", "one two three"},
		{"ends with fifteen chars", "fifteen chars more", "ends with fifteen charsfifteen chars more"}, // 13
		{"ends in sixteen chars!!", "sixteen chars!! more", "ends in sixteen chars!!sixteen chars!! more"},
		{"x 1234567890123456", "1234567890123456 y", "x 1234567890123456 y"},
		{"x 123456789012345", "123456789012345 y", "x 123456789012345123456789012345 y"},
		{"x éééééééééééééééé", "éééééééééééééééé y", "x éééééééééééééééé y"},
		{"x ééééééééé", "ééééééééé y", "x éééééééééééééééééé y"}, // 9 code points are 18 bytes
		{"hello", "lo", "hello"},
		{"hello", "hello", "hello"},
		{"hello", "hello!", "hellohello!"},
		{"aaaa", "aa", "aaaa"},
		{"abababababababababab", "babababababababababc", "abababababababababab" + "c"},
		{"e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301", "éééééééé", "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301éééééééé"},
	} {
		if got := Merge(c.text, c.next); got != c.want {
			t.Errorf("Merge(%q, %q) = %q, want %q", c.text, c.next, got, c.want)
		}
	}
}

// FuzzMerge holds Merge against the sentence of the contract, word by word.
func FuzzMerge(f *testing.F) {
	f.Add("x 1234567890123456", "1234567890123456 y")
	f.Add("aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaab")
	f.Fuzz(func(t *testing.T, text, next string) {
		a, b := []rune(text), []rune(next)
		text, next = string(a), string(b)
		want := text + next
		for n := min(len(a), len(b)); n > 0; n-- {
			if string(a[len(a)-n:]) == string(b[:n]) {
				if n >= 16 || n == len(b) {
					want = text + string(b[n:])
				}
				break
			}
		}
		if got := Merge(text, next); got != want {
			t.Fatalf("Merge(%q, %q) = %q, want %q", text, next, got, want)
		}
	})
}
