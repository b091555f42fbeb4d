package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loopd/loopd/event"
)

// Window is how much context a service takes; the zero value means that
// nothing is known, and nothing is ever summarized.
type Window struct {
	Tokens int64   // the context window; 0 = unknown
	Share  float64 // of it, at which old turns are summarized; default 0.8
}

// bytesPerToken is a cautious guess for text of any language.
const bytesPerToken = 3

// room is the most bytes that the messages of a request may have.
func (c Config) room() int {
	share := c.Window.Share
	if share <= 0 || share > 1 {
		share = 0.8
	}
	return max(0, int((float64(c.Window.Tokens)*share-float64(c.OutputBudget))*bytesPerToken))
}

// Summarize replaces the oldest turns of the conversation, before an operation
// is admitted. It names what must not be lost (rule C4).
type Summarize struct {
	Tick Tick
	event.ContextSummarized
}

func (c Summarize) decide(s State) (Fact, error) {
	_, due := s.dueCommand()
	if st := s.advance(c.Tick); due || s.Generation == nil || st.inline == nil || !strings.HasPrefix(st.inline.Key(), "admit") {
		return Fact{}, rejected("no operation is about to be admitted")
	}
	return Fact{Payload: c.ContextSummarized, Cause: s.Generation.LeadID}, nil
}

// Summary is the summary that the conversation needs before its next request,
// if it has come near the window and anything can be left out: the turns of
// earlier generations, shortened to a line each.
func (p *Past) Summary(config Config) (event.ContextSummarized, bool) {
	if config.Window.Tokens == 0 || p.size() <= config.room() {
		return event.ContextSummarized{}, false
	}
	n := 0
	for n < len(p.entries) && p.entries[n].generation != p.generation {
		n++
	}
	if n == 0 || n == 1 && p.entries[0].summary {
		return event.ContextSummarized{}, false
	}
	kept := p.kept[p.task]
	return event.ContextSummarized{
		ThroughSequence: p.entries[n-1].sequence, Text: summaryText(p.entries[:n]),
		Kept: event.Kept{
			Invocations: slices.Clone(kept.Invocations), Approvals: slices.Clone(kept.Approvals), Operations: slices.Clone(kept.Operations),
		},
	}, true
}

// size is what the conversation has in bytes.
func (p *Past) size() int {
	n := len(p.system)
	for _, e := range p.entries {
		n += len(e.message.Text)
		for _, c := range e.calls {
			n += len(c.proposed.Arguments) + len(c.answer)
		}
	}
	return n
}

// The most that a summary keeps of one turn, in characters, and of all of
// them, in lines: the newest.
const (
	summaryLine  = 200
	summaryLines = 200
)

func summaryText(entries []entry) string {
	var lines []string
	for _, e := range entries {
		if e.summary {
			lines = append(lines, strings.Split(e.message.Text, "\n")[1:]...)
			continue
		}
		if e.message.Text != "" {
			lines = append(lines, fmt.Sprintf("- %s: %s", e.message.Role, oneLine(e.message.Text)))
		}
		for _, c := range e.calls {
			answer := c.answer
			if !c.answered {
				answer = unanswered
			}
			lines = append(lines, fmt.Sprintf("- call of %s (invocation %s): %s", c.proposed.Tool, c.proposed.InvocationID, oneLine(answer)))
		}
	}
	lines = lines[max(0, len(lines)-summaryLines):]
	return "The conversation so far, older turns shortened:\n" + strings.Join(lines, "\n")
}

func oneLine(s string) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > summaryLine {
		return string(r[:summaryLine]) + "…"
	}
	return string(r)
}

// summarized puts a summary in the place of the turns that it covers.
func (p *Past) summarized(f event.ContextSummarized) {
	n := 0
	for n < len(p.entries) && p.entries[n].sequence <= f.ThroughSequence {
		n++
	}
	head := entry{
		message: Message{Role: RoleUser, Text: f.Text}, sequence: f.ThroughSequence, summary: true,
	}
	p.entries = append([]entry{head}, p.entries[n:]...)
}

// keep notes what a summary of the task must name.
func (p *Past) keep(e event.Event) {
	kept := p.kept[p.task]
	switch f := e.Payload.(type) {
	case event.GenerationStarted:
		p.task, p.generation = f.TaskID, f.GenerationID
		return
	case event.InvocationCompleted:
		kept.Invocations = append(kept.Invocations, f.InvocationID)
	case event.InvocationApproved:
		kept.Approvals = append(kept.Approvals, f.DecidedBy)
	case event.InvocationDenied:
		kept.Approvals = append(kept.Approvals, f.DecidedBy)
	case event.OperationCompleted:
		if f.Late {
			return
		}
		kept.Operations = append(kept.Operations, f.OperationID)
	default:
		return
	}
	p.kept[p.task] = kept
}
