package schemas

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/loopd/loopd/event"
)

// enumerations says which block of constants in event/words.go (by its first
// constant) each enumeration must equal.
var enumerations = map[string][]string{
	"FinishStop":             {"events/operation.completed finish", "events/checkpoint.saved finish"},
	"ObservedComplete":       {"events/operation.inspected observed", "events/invocation.inspected observed"},
	"KindUser":               {"events/input.accepted kind", "input kind"},
	"RejectIdentityConflict": {"events/input.rejected reason"},
	"RefuseNoActiveJob":      {"events/command.rejected reason"},
	"VerdictApprove":         {"inputs/decision verdict"},
	"EffectRead":             {"events/invocation.proposed effect"},
	"ApprovalNone":           {"events/invocation.proposed approval"},
	"WithheldTruncated":      {"events/invocation.withheld reason"},
	"StopSegmentsExhausted":  {"events/continuation.stopped reason", "events/generation.finished continuation.reason"},
	"CheckpointCutoff":       {"events/checkpoint.saved kind"},
	"DispatchNotDispatched":  {"events/operation.failed dispatch"},
	"UnknownTransport":       {"events/operation.unknown reason"},
	"DetachedStopped":        {"events/generation.detached reason"},
}

// selections are the enumerations and single values that take some constants
// of a block.
var selections = map[string][]string{
	"events/session.opened steering":                {event.SteeringModeRequest, event.SteeringModeNative},
	"events/session.closed status":                  {event.StatusCompleted, event.StatusCancelled},
	"events/input.queued delivery":                  {event.DeliveryRequestBoundary},
	"events/input.delivered delivery":               {event.DeliveryNewTurn, event.DeliveryRequestBoundary},
	"events/input.unknown route":                    {event.DeliveryNative, event.DeliveryRequestBoundary},
	"events/steering.sent route":                    {event.DeliveryNative},
	"events/steering.accepted delivery":             {event.DeliveryNative, event.DeliveryRequestBoundary},
	"events/steering.applied delivery":              {event.DeliveryNative, event.DeliveryRequestBoundary},
	"events/generation.finished disposition":        {event.DispositionFinished},
	"events/generation.finished continuation.state": {event.ContinuationStateStopped},
	"events/generation.detached cancellation":       {event.CancellationUnconfirmed},
	"events/operation.unknown next_action":          {event.ActionInspectOriginal},
	"events/operation.cancelled dispatch":           {event.DispatchNotDispatched},
	"events/invocation.uncertain next_action":       {event.ActionReconcile},
	"events/invocation.reconciled verdict":          {event.VerdictReconciled, event.VerdictStillUnknown, event.VerdictAbandon},
	"events/invocation.completed ok":                {"true"},
	"events/invocation.failed ok":                   {"false"},
	"events/job.returned outcome":                   {event.OutcomeToolReport},
	"events/job.returned effects":                   {event.EffectsNotRolledBack},
	"events/job.failed effects":                     {event.EffectsNotRolledBack},
	"events/job.cancelled effects":                  {event.EffectsNotRolledBack},
	"events/job.cancel_requested effects":           {event.EffectsNotRolledBack},
	"events/job.recovered status":                   {event.StatusReturned, event.StatusFailed, event.StatusUnknown},
	"events/job.recovered outcome":                  {event.OutcomeSavedEvidence},
	"inputs/stop target":                            {event.TargetCancel},
}

func TestEnumerationsAreTheConstants(t *testing.T) {
	blocks := constantBlocks(t)
	want := map[string][]string{}
	for first, places := range enumerations {
		values, ok := blocks[first]
		if !ok {
			t.Errorf("event/words.go has no block that begins with %s", first)
		}
		for _, place := range places {
			want[place] = values
		}
	}
	for place, values := range selections {
		want[place] = values
	}
	for place, values := range want {
		if got := sortedWords(valuesAt(t, place)); !slices.Equal(got, slices.Sorted(slices.Values(values))) {
			t.Errorf("%s takes %v, want %v", place, got, values)
		}
	}
	eachEnumeration(t, func(place string) {
		if _, ok := want[place]; !ok {
			t.Errorf("%s: an enumeration that no constant answers for", place)
		}
	})
}

// constantBlocks reads the constants of event/words.go, by the first of each
// block.
func constantBlocks(t *testing.T) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../event/words.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		first := group.Specs[0].(*ast.ValueSpec).Names[0].Name
		for _, spec := range group.Specs {
			value, err := strconv.Unquote(spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			blocks[first] = append(blocks[first], value)
		}
	}
	return blocks
}

// eachEnumeration visits every enum and const of the event schemas, but for
// the envelope's.
func eachEnumeration(t *testing.T, visit func(place string)) {
	t.Helper()
	for _, typ := range loaded.EventTypes() {
		walkProperties(readRaw(t, "events/"+typ+".json"), "", func(name string, p raw) {
			if len(p.values()) > 0 && !slices.Contains(envelopeFields, name) {
				visit("events/" + typ + " " + name)
			}
		})
	}
}

// walkProperties visits the properties of an object, and of the objects in it.
func walkProperties(schema raw, prefix string, visit func(name string, p raw)) {
	for name, p := range schema.properties() {
		visit(prefix+name, p)
		walkProperties(p.follow(), prefix+name+".", visit)
	}
}

func valuesAt(t *testing.T, place string) []any {
	t.Helper()
	var file, name string
	if _, err := fmt.Sscanf(place, "%s %s", &file, &name); err != nil {
		t.Fatal(err)
	}
	var values []any
	walkProperties(readRaw(t, file+".json"), "", func(n string, p raw) {
		if n == name {
			values = p.values()
		}
	})
	return values
}

func sortedWords(values []any) []string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	slices.Sort(words)
	return words
}
