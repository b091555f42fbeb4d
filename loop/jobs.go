package loop

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/loopd/loopd/event"
)

// resultID is the id of the service input that brings a job's result back: the
// same for every owner, so that it is submitted once, and known to nobody
// before the result is in the log.
func (j Job) resultID() string { return j.EndID + ".result" }

// resultInput is that input's body. It depends on the job alone.
func (j Job) resultInput() []byte {
	text := j.Result
	if strings.TrimSpace(text) == "" {
		text = "(the job returned no text)"
	}
	if j.Failed {
		text = "The job failed: " + text
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(event.Input{
		Version: event.Version, InputID: j.resultID(), Kind: event.KindService, Source: "tool:" + j.Tool,
		Target: j.JobID, CallID: j.CallID, Text: text,
	}); err != nil {
		panic("loop: an input is always JSON: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// isResult reports whether an inbox message is a reported job's own result:
// never refused for the limits of what hosts send (contract, section 3).
func (s *State) isResult(in event.Input, digest string) bool {
	for _, j := range s.Jobs {
		if j.Phase == JobReported && j.resultID() == in.InputID {
			return event.InputDigest(j.resultInput()) == digest
		}
	}
	return false
}

func (j Job) cancelled() event.JobCancelled {
	return event.JobCancelled{JobID: j.JobID, CallID: j.CallID, Outcome: event.OutcomeCancelled, Effects: event.EffectsNotRolledBack}
}

// FinishJob brings a job's outcome back.
type FinishJob struct {
	JobID     string
	Outcome   ToolOutcome
	Cancelled bool // it ended because it was asked to
}

func (c FinishJob) decide(s State) (Fact, error) {
	j := s.job(c.JobID)
	if j == nil || !j.running() || j.Epoch != s.Epoch {
		return Fact{}, rejected("the job is not running here")
	}
	switch {
	case c.Cancelled:
		return Fact{Payload: j.cancelled(), Cause: j.CancelBy}, nil
	case c.Outcome.Lost:
		return Fact{Payload: event.JobRecovered{
			JobID: j.JobID, CallID: j.CallID, Status: event.StatusUnknown, Outcome: event.OutcomeSavedEvidence,
		}}, nil
	case c.Outcome.Failed:
		return Fact{Payload: event.JobFailed{
			JobID: j.JobID, CallID: j.CallID, Outcome: event.OutcomeFailed, Result: c.Outcome.Result, Effects: event.EffectsNotRolledBack,
		}}, nil
	}
	return Fact{Payload: event.JobReturned{
		JobID: j.JobID, CallID: j.CallID, Outcome: event.OutcomeToolReport, Result: c.Outcome.Result, Effects: event.EffectsNotRolledBack,
	}}, nil
}

// RecoverJob brings the look-up of a job that an older owner ran (contract
// 6.4): evidence, never a second dispatch.
type RecoverJob struct {
	JobID string
	Found ToolInspection
}

func (c RecoverJob) decide(s State) (Fact, error) {
	j := s.job(c.JobID)
	if j == nil || !j.running() || j.Epoch == s.Epoch {
		return Fact{}, rejected("the job is not an older owner's")
	}
	r := event.JobRecovered{JobID: j.JobID, CallID: j.CallID, Status: event.StatusUnknown, Outcome: event.OutcomeSavedEvidence}
	if o := c.Found.Outcome; c.Found.Observed == event.ObservedComplete && !o.Lost {
		r.Status, r.Result = event.StatusReturned, o.Result
		if o.Failed {
			r.Status = event.StatusFailed
		}
	}
	return Fact{Payload: r}, nil
}
