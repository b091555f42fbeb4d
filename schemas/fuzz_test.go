package schemas

import (
	"errors"
	"testing"

	"github.com/loopd/loopd/event"
)

// FuzzEvent: any bytes get a verdict, never a panic, in bounded words.
func FuzzEvent(f *testing.F) {
	for _, line := range foreignLines(f) {
		e, err := event.Decode([]byte(line))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(e.Type), []byte(line))
	}
	f.Add("generation.started", []byte(`{"bounds":{"max_cost":1e9999999,"max_tokens":-1E+99999999999999999999}}`))
	f.Add("operation.completed", []byte(`{"usage":{"cost":-0.1e-9999999},"tool_calls":[{}]}`))
	f.Add("no.such", []byte(`[[[[]]]]`))
	f.Add("", []byte(`{"type":""}`))
	f.Fuzz(func(t *testing.T, typ string, data []byte) {
		inBounds(t, loaded.Event(typ, data))
		for _, kind := range loaded.InputKinds() {
			inBounds(t, loaded.Input(kind, data))
		}
	})
}

func inBounds(t *testing.T, err error) {
	t.Helper()
	var invalid *ValidationError
	if err == nil {
		return
	}
	if !errors.As(err, &invalid) || len(invalid.Hint) > maxHint || len(invalid.Field) > 2*maxValue || len(err.Error()) > 512 {
		t.Errorf("not a bounded ValidationError: %q", err)
	}
}

func TestHugeNumbersHaveAVerdict(t *testing.T) {
	for _, c := range []struct{ bounds, field string }{
		{`{"max_segments":8,"max_tokens":0,"max_cost":1e9999999,"max_elapsed_ms":0,"no_progress":2}`, ""},
		{`{"max_segments":8,"max_tokens":0,"max_cost":1e-9999999,"max_elapsed_ms":0,"no_progress":2}`, ""},
		{`{"max_segments":8,"max_tokens":0,"max_cost":-1E+99999999999999999999,"max_elapsed_ms":0,"no_progress":2}`, "bounds.max_cost"},
		{`{"max_segments":8,"max_tokens":1e-9999999,"max_cost":0,"max_elapsed_ms":0,"no_progress":2}`, "bounds.max_tokens"},
	} {
		line := `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"generation.started","session_id":"s","sequence":3,"epoch":1,` +
			`"time":"2026-01-01T00:00:00.000001Z","prev":"","cause":"in-1","generation_id":"g","initial_input_id":"in-1","task_id":"t","bounds":` + c.bounds + `}`
		blame(t, c.bounds, loaded.Event("generation.started", []byte(line)), c.field)
	}
}
