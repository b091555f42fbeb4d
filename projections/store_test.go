package projections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/projections/view"
)

var testStream = Stream{Name: "LOOP_EVENTS", Created: time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC)}

func memory(fs vfs.FS) Config {
	return Config{Stream: testStream, FS: fs, CacheBytes: 1 << 20, MemTableBytes: 64 << 10}
}

func mustOpen(t tb, cfg Config) *Store {
	t.Helper()
	s, err := Open("store", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t tb, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// history makes n records of a few sessions from a seed: every event type,
// ids from a small pool so that rows meet, gaps in the stream, and now and
// then a record that cannot be folded.
func history(seed uint64, n int) []event.Record {
	r := rand.New(rand.NewPCG(seed, 1))
	types := event.Types()
	slices.Sort(types)
	kinds := []event.Kind{event.KindUser, event.KindSteer, event.KindService, event.KindStop, event.KindWithdraw, event.KindDecision}
	id := func(prefix string) string { return fmt.Sprintf("%s-%d", prefix, r.IntN(4)) }
	sequences := map[string]int{}
	var out []event.Record
	at := uint64(0)
	for range n {
		at += 1 + r.Uint64N(2)
		session := id("s")
		sequences[session]++
		typ := types[r.IntN(len(types))]
		data := fmt.Appendf(nil, `{"version":1,"id":"%026d","type":%q,"session_id":%q,"sequence":%d,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"","cause":%q,`+
			`"input_id":%q,"kind":%q,"by":%q,"decided_by":%q,"initial_input_id":%q,"input":{},"digest":"d","delivery":%q,"reason":%q,"verdict":%q,`+
			`"generation_id":%q,"target_generation_id":%q,"input_ids":[%q],"operation_id":%q,"checkpoint_id":%q,"invocation_id":%q,"job_id":%q,"text":%q}`,
			at, typ, session, sequences[session], id("i"),
			id("i"), kinds[r.IntN(len(kinds))], id("i"), id("i"), id("i"),
			[]string{"native", "request_boundary"}[r.IntN(2)], []string{"identity_conflict", "other"}[r.IntN(2)],
			[]string{"reconciled", "still_unknown"}[r.IntN(2)],
			id("g"), id("g"), id("i"), id("o"), id("c"), id("v"), id("j"), bytes.Repeat([]byte{'x'}, r.IntN(400)))
		switch r.IntN(40) {
		case 0:
			data = data[:len(data)/2]
		case 1:
			data = bytes.Replace(data, []byte(`"version":1`), []byte(`"version":9`), 1)
		case 2:
			data = append(data, 0xff)
		}
		out = append(out, event.Record{StreamSeq: at, Subject: "loop.ev." + session + "." + string(typ), Data: data})
	}
	return out
}

func model(t tb, recs []event.Record) *view.Model {
	t.Helper()
	m := view.NewModel()
	for _, rec := range recs {
		if err := m.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// requireModel holds every row, the offset and the parked records of a store
// against a model.
func requireModel(t tb, s *Store, m *view.Model) {
	t.Helper()
	want := map[string][]byte{}
	maps.Insert(want, m.Rows())
	previous := []byte(nil)
	for entry, err := range s.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		key := entry.Key.Append(nil)
		if bytes.Compare(previous, key) >= 0 {
			t.Fatalf("%s is out of order", entry.Key)
		}
		if !bytes.Equal(entry.Row, want[string(key)]) {
			t.Fatalf("%s:\nstore %s\nmodel %s", entry.Key, entry.Row, want[string(key)])
		}
		delete(want, string(key))
		previous = key
	}
	for key, row := range want {
		t.Fatalf("the store lacks %q: %s", key, row)
	}
	parked, err := s.Parked()
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[uint64]string{}
	for _, p := range parked {
		reasons[p.StreamSeq] = p.Reason
	}
	if !maps.Equal(reasons, m.Parked()) || s.Offset() != m.Offset() {
		t.Fatalf("store at %d with parked %v, model at %d with %v", s.Offset(), reasons, m.Offset(), m.Parked())
	}
}

func TestStoreEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs := history(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 120).Draw(t, "events"))
		cfg := memory(Memory())
		cfg.BatchRecords = rapid.IntRange(1, 40).Draw(t, "batch")
		cfg.BatchBytes = rapid.IntRange(1, 20_000).Draw(t, "bytes")
		cfg.CachedRows = rapid.IntRange(1, 60).Draw(t, "cached")
		s := mustOpen(t, cfg)
		for done := 0; done < len(recs); {
			// Again from somewhere before, to somewhere after: redelivery.
			from := rapid.IntRange(0, done).Draw(t, "from")
			done = rapid.IntRange(done+1, len(recs)).Draw(t, "to")
			if err := s.ApplyBatch(recs[from:done]); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "reopen") == 0 {
				mustClose(t, s)
				s = mustOpen(t, cfg)
			}
			requireModel(t, s, model(t, recs[:done]))
		}
		mustClose(t, s)
	})
}

// A crash may lose any of what was not synced: what is left is a whole prefix
// of the stream, and the stream given again makes it complete.
func TestCrashAtEveryBatch(t *testing.T) {
	const batch = 7
	recs := history(3, 210)
	full := model(t, recs)
	fs := vfs.NewCrashableMem()
	cfg := memory(fs)
	cfg.BatchRecords = batch
	s := mustOpen(t, cfg)
	rng := rand.New(rand.NewPCG(9, 9))
	behind, kept := 0, 0
	for done := 0; done <= len(recs); done += batch {
		for _, percent := range []int{0, 30, 100} {
			crashed := memory(fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}))
			crashed.Stream = Stream{} // the identity must be there already
			after := mustOpen(t, crashed)
			left := slices.IndexFunc(recs, func(r event.Record) bool { return r.StreamSeq > after.Offset() })
			if left < 0 {
				left = len(recs)
			}
			if left > done {
				t.Fatalf("after %d records the store says %d", done, left)
			}
			requireModel(t, after, model(t, recs[:left]))
			if left < done {
				behind++
			} else if done > 0 {
				kept++
			}
			if err := after.ApplyBatch(recs); err != nil {
				t.Fatal(err)
			}
			requireModel(t, after, full)
			mustClose(t, after)
		}
		if done < len(recs) {
			if err := s.ApplyBatch(recs[done : done+batch]); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustClose(t, s)
	if behind == 0 || kept == 0 {
		t.Fatalf("%d crashes lost something, %d nothing: want both", behind, kept)
	}
}

func TestPoisonIsParkedAndStopsNobody(t *testing.T) {
	good := `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"job.queued","session_id":"s","sequence":1,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"","job_id":"%s","generation_id":"g"}`
	cfg := memory(Memory())
	cfg.MaxParked = 3
	s := mustOpen(t, cfg)
	recs := []event.Record{
		{StreamSeq: 2, Subject: "a\xff", Data: []byte("\xff")},
		{StreamSeq: 3, Subject: "b", Data: fmt.Appendf(nil, good, "j1")},
		{StreamSeq: 4, Subject: "c", Data: fmt.Appendf(nil, good, "")},
		{StreamSeq: 5, Subject: "d", Data: []byte(`{"version":1,"type":"` + string(bytes.Repeat([]byte("é"), 2000)) + `"}`)},
		{StreamSeq: 6, Subject: "e", Data: nil},
		{StreamSeq: 7, Subject: "f", Data: fmt.Appendf(nil, good, "j2")},
	}
	if err := s.ApplyBatch(recs); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"j1", "j2"} {
		if _, ok, err := s.Get(view.ViewJob, "s", job); !ok || err != nil {
			t.Errorf("job %s is not there: %v", job, err)
		}
	}
	parked, err := s.Parked()
	if err != nil {
		t.Fatal(err)
	}
	seqs := []uint64{}
	for _, p := range parked {
		seqs = append(seqs, p.StreamSeq)
		if p.Reason == "" || len(p.Reason) > 600 {
			t.Errorf("%d is parked for %q", p.StreamSeq, p.Reason)
		}
	}
	now, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seqs, []uint64{2, 4, 5}) || now.ParkedCount() != 4 || now.Offset() != 7 {
		t.Errorf("parked %v of %d at offset %d, want [2 4 5] of 4 at 7", seqs, now.ParkedCount(), now.Offset())
	}
	if err := now.Close(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestOpenRefuses(t *testing.T) {
	cfg := memory(Memory())
	if _, err := Open("store", Config{FS: Memory()}); err == nil {
		t.Error("a new store without a stream")
	}
	if _, err := Open("store", Config{FS: Memory(), Stream: testStream, MemTableBytes: 1}); err == nil {
		t.Error("a memtable of one byte")
	}
	s := mustOpen(t, cfg)
	if err := s.ApplyBatch(history(1, 20)); err != nil {
		t.Fatal(err)
	}
	offset := s.Offset()
	mustClose(t, s)

	recreated := testStream
	recreated.Created = recreated.Created.Add(time.Nanosecond)
	for _, other := range []Stream{recreated, {Name: "OTHER", Created: testStream.Created}} {
		cfg.Stream = other
		_, err := Open("store", cfg)
		var foreign *ForeignStreamError
		if !errors.As(err, &foreign) || !foreign.Stored.equal(testStream) || !foreign.Given.equal(other) {
			t.Errorf("stream %s: %v", other, err)
		}
	}

	cfg.Stream = Stream{Name: testStream.Name, Created: testStream.Created.In(time.FixedZone("x", 3600))}
	s = mustOpen(t, cfg)
	if s.Offset() != offset {
		t.Errorf("reopened at %d, want %d", s.Offset(), offset)
	}
	old := s.identity
	old.Views = slices.Clone(old.Views)
	old.Views[2].Version--
	put(t, s, keyIdentity, mustJSON(t, old))
	mustClose(t, s)
	_, err := Open("store", cfg)
	var version *VersionError
	if !errors.As(err, &version) || !slices.Equal(version.Stored, old.Views) || !slices.Equal(version.Want, view.Versions()) {
		t.Errorf("older views: %v", err)
	}
}

func TestOpenFindsDamage(t *testing.T) {
	cfg := memory(Memory())
	s := mustOpen(t, cfg)
	session, err := view.Encode(&view.Session{Stamp: view.Stamp{SessionID: "s"}, State: view.StateOpen})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, rowKey(view.Key{View: view.ViewSession, Session: "s", ID: "s"}), session)
	put(t, s, rowKey(view.Key{View: view.ViewJob, Session: "s", ID: "j"}), []byte(`{"job_id":1}`))
	if _, _, err := s.Get(view.ViewJob, "s", "j"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a row that is none: %v", err)
	}
	if err := s.Apply(event.Record{StreamSeq: 1, Data: fmt.Appendf(nil, `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"job.returned","session_id":"s","sequence":1,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"","job_id":"j"}`)}); !errors.Is(err, ErrCorrupt) || s.Offset() != 0 {
		t.Errorf("folded onto a row that is none: %v, offset %d", err, s.Offset())
	}
	if err := s.db.Delete(keyIdentity, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, err := Open("store", cfg); !errors.Is(err, ErrCorrupt) {
		t.Errorf("rows without an identity: %v", err)
	}
}

func TestApplyRefuses(t *testing.T) {
	cfg := memory(Memory())
	s := mustOpen(t, cfg)
	if err := s.Apply(event.Record{Data: []byte(`{}`)}); err == nil {
		t.Error("a record without a sequence is skipped in silence")
	}
	mustClose(t, s)
	mustClose(t, s)
	if err := s.ApplyBatch(history(1, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if _, _, err := s.Get(view.ViewJob, "s", "j"); !errors.Is(err, ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	cfg.ReadOnly = true
	s = mustOpen(t, cfg)
	if err := s.ApplyBatch(history(1, 1)); err == nil {
		t.Error("a store opened to read only took a record")
	}
	mustClose(t, s)
}

func TestRebuildAndCompare(t *testing.T) {
	ctx := context.Background()
	recs := history(5, 150)
	a, err := Rebuild(ctx, feed(recs, nil), "a", memory(Memory()))
	if err != nil {
		t.Fatal(err)
	}
	small := memory(Memory())
	small.BatchRecords = 3
	b, err := Rebuild(ctx, feed(recs, nil), "b", small)
	if err != nil {
		t.Fatal(err)
	}
	requireModel(t, a, model(t, recs))
	if d, err := Compare(ctx, a, b, 5); err != nil || len(d) > 0 {
		t.Fatalf("two folds of one feed differ: %v %v", d, err)
	}
	rows := 0
	for entry, err := range a.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		key := rowKey(entry.Key)
		changed := bytes.Clone(entry.Row)
		changed[rows%len(changed)] ^= 1
		put(t, b, key, changed)
		requireDifference(t, a, b, Difference{entry.Key, entry.Row, changed})
		if err := b.db.Delete(key, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		requireDifference(t, a, b, Difference{entry.Key, entry.Row, nil})
		requireDifference(t, b, a, Difference{entry.Key, nil, entry.Row})
		put(t, b, key, entry.Row)
		rows++
	}
	if rows < 50 {
		t.Fatalf("%d rows only", rows)
	}
	extra := view.Key{View: view.ViewJob, Session: "z", ID: "z"}
	put(t, b, rowKey(extra), nil)
	requireDifference(t, a, b, Difference{Key: extra, B: []byte{}})
	if err := b.Apply(event.Record{StreamSeq: b.Offset() + 1}); err != nil {
		t.Fatal(err)
	}
	var offset *OffsetError
	if _, err := Compare(ctx, a, b, 1); !errors.As(err, &offset) {
		t.Errorf("stores at different offsets were compared: %v", err)
	}
	mustClose(t, a)
	mustClose(t, b)
}

func TestRebuildStopsAndGoesOn(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	recs := history(6, 60)
	cfg := memory(Memory())
	cfg.BatchRecords = 8
	lost := errors.New("connection lost")
	if _, err := Rebuild(ctx, feed(recs[:20], lost), "store", cfg); !errors.Is(err, lost) {
		t.Fatalf("the feed's error is not told: %v", err)
	}
	if _, err := Rebuild(ctx, feed(recs, nil), "store", cfg); err == nil {
		t.Fatal("a store that exists was rebuilt in place")
	}
	s := mustOpen(t, cfg)
	requireModel(t, s, model(t, recs[:20]))
	cancel()
	if err := s.Fold(ctx, feed(recs, nil)); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	if err := s.Fold(context.Background(), feed(recs, nil)); err != nil {
		t.Fatal(err)
	}
	requireModel(t, s, model(t, recs))
	mustClose(t, s)
}

func TestLookupAndSnapshot(t *testing.T) {
	s := mustOpen(t, memory(Memory()))
	accepted := `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"input.accepted","session_id":"s","sequence":1,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"","input_id":"in-1","kind":"user","source":"user","digest":"d","input":{},"inbox_seq":7}`
	delivered := `{"version":1,"id":"01ARZ3NDEKTSV4RRFFQ69G5FAW","type":"input.delivered","session_id":"s","sequence":2,"epoch":1,"time":"2026-01-01T00:00:00Z","prev":"","input_id":"in-1","delivery":"new_turn","source":"user","generation_id":"g"}`
	if err := s.Apply(event.Record{StreamSeq: 1, Data: []byte(accepted)}); err != nil {
		t.Fatal(err)
	}
	before, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(event.Record{StreamSeq: 2, Data: []byte(delivered)}); err != nil {
		t.Fatal(err)
	}
	for lookup, want := range map[*func(string, string, string) (map[string]any, bool, error)]map[string]any{
		ptr(before.Lookup): {"input_id": "in-1", "state": "accepted", "inbox_seq": 7.0, "sequence": 1.0},
		ptr(s.Lookup):      {"input_id": "in-1", "state": "delivered", "generation_id": "g", "delivery": "new_turn", "sequence": 2.0},
	} {
		fields, ok, err := (*lookup)("input", "s", "in-1")
		if !ok || err != nil {
			t.Fatalf("not found: %v", err)
		}
		for name, value := range want {
			if fields[name] != value {
				t.Errorf("%s is %v, want %v", name, fields[name], value)
			}
		}
	}
	for _, absent := range []view.Key{{View: "input", Session: "s", ID: "in-2"}, {View: "input", Session: "t", ID: "in-1"}, {View: "weather", Session: "s", ID: "in-1"}} {
		if _, ok, err := s.Lookup(string(absent.View), absent.Session, absent.ID); ok || err != nil {
			t.Errorf("%s: found %v, %v", absent, ok, err)
		}
	}
	count := 0
	for entry, err := range before.View(view.ViewInput, "s") {
		if err != nil || entry.Key.ID != "in-1" {
			t.Errorf("%s: %v", entry.Key, err)
		}
		count++
	}
	if count != 1 || before.Offset() != 1 || s.Offset() != 2 {
		t.Errorf("%d inputs, offsets %d and %d", count, before.Offset(), s.Offset())
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestStoreOnDisk(t *testing.T) {
	dir := t.TempDir() + "/builds/1"
	recs := history(8, 80)
	s, err := Rebuild(context.Background(), feed(recs, nil), dir, Config{Stream: testStream})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s, err = Open(dir, Config{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	requireModel(t, s, model(t, recs))
	mustClose(t, s)
}

func ptr[T any](v T) *T { return &v }

func feed(recs []event.Record, end error) event.Feed {
	return func(yield func(event.Record, error) bool) {
		for _, rec := range recs {
			if !yield(rec, nil) {
				return
			}
		}
		if end != nil {
			yield(event.Record{}, end)
		}
	}
}

func requireDifference(t *testing.T, a, b *Store, want Difference) {
	t.Helper()
	got, err := Compare(context.Background(), a, b, 5)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Key != want.Key || !bytes.Equal(got[0].A, want.A) || !bytes.Equal(got[0].B, want.B) {
		t.Fatalf("differences %v, want %v", got, want)
	}
}

func put(t *testing.T, s *Store, key, value []byte) {
	t.Helper()
	if err := s.db.Set(key, value, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
