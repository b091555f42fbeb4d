package projections

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// serveBuild begins a build, folds recs into it and serves it.
func serveBuild(t tb, b *Builds, stream Stream, recs ...func(*Store)) Build {
	t.Helper()
	build, store, _, err := b.Begin(stream, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, fold := range recs {
		fold(store)
	}
	if err := errors.Join(b.Ready(build, store, "test"), b.Switch(build.ID)); err != nil {
		t.Fatal(err)
	}
	return build
}

func applying(t tb, seed uint64, n int) func(*Store) {
	return func(s *Store) {
		t.Helper()
		if err := s.ApplyBatch(history(seed, n)); err != nil {
			t.Fatal(err)
		}
	}
}

func requireCurrent(t tb, b *Builds, want string) {
	t.Helper()
	now, err := b.Current()
	if err != nil || now.ID != want || now.State != BuildReady {
		t.Fatalf("current build is %+v, %v; want %s", now, err, want)
	}
}

func TestBuildsSwitchAndRollBack(t *testing.T) {
	b := NewBuilds("views", memory(vfs.NewMem()))
	if _, err := b.Current(); !errors.Is(err, ErrNoBuild) {
		t.Fatalf("current of nothing: %v", err)
	}
	for range 4 {
		serveBuild(t, b, testStream, applying(t, 1, 50))
	}
	requireCurrent(t, b, "b000004")
	removed, err := b.Prune(2)
	if err != nil || !slices.Equal(removed, []string{"b000001"}) {
		t.Fatalf("prune removed %v, %v", removed, err)
	}
	for _, want := range []string{"b000003", "b000002"} {
		if _, err := b.Rollback(); err != nil {
			t.Fatal(err)
		}
		requireCurrent(t, b, want)
	}
	if _, err := b.Rollback(); !errors.Is(err, ErrNoBuild) {
		t.Fatalf("rolled back beyond the oldest: %v", err)
	}
	requireCurrent(t, b, "b000002")
	if removed, err := b.Prune(0); err != nil || len(removed) != 0 {
		t.Fatalf("prune removed %v, %v: newer ones than the served stay", removed, err)
	}
}

func TestBuildsRefuse(t *testing.T) {
	fs := vfs.NewMem()
	b := NewBuilds("views", memory(fs))
	build, store, resumed, err := b.Begin(testStream, "")
	if err != nil || resumed {
		t.Fatal(resumed, err)
	}
	if err := b.Switch(build.ID); err == nil {
		t.Fatal("a build in the making is served")
	}
	for _, id := range []string{"", "..", "b1", "b000000", "b000001/", "b000009"} {
		if err := b.Switch(id); err == nil {
			t.Fatalf("switched to %q", id)
		}
	}
	var used *InUseError
	if _, _, _, err := b.Begin(testStream, ""); !errors.As(err, &used) {
		t.Fatalf("a second rebuild of an open build: %v", err)
	}
	mustClose(t, store)
	lock, err := b.Hold(RoleServe)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewBuilds("views", memory(fs)).Hold(RoleServe); !errors.As(err, &used) || !strings.Contains(err.Error(), "serve") {
		t.Fatalf("two serve one directory: %v", err)
	}
	other, err := b.Hold(RoleRebuild)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
}

// A build in the making of another stream, or damaged, is made anew; nobody
// serves it.
func TestBeginMakesAnewWhatCannotGoOn(t *testing.T) {
	fs := vfs.NewMem()
	b := NewBuilds("views", memory(fs))
	served := serveBuild(t, b, testStream, applying(t, 1, 50))
	_, store, _, err := b.Begin(testStream, "")
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, store)
	other := testStream
	other.Created = other.Created.Add(1)
	build, store, resumed, err := b.Begin(other, "")
	if err != nil || resumed || store.Offset() != 0 || store.Stream() != other {
		t.Fatalf("%+v, resumed %t: %v", build, resumed, err)
	}
	mustClose(t, store)
	requireCurrent(t, b, served.ID)
	var foreign *ForeignStreamError
	if _, err := b.Open(served, other); !errors.As(err, &foreign) {
		t.Fatalf("a build of another stream is served: %v", err)
	}
}

// A rebuild that crashes again and again goes on each time at a whole batch,
// and ends equal to the model; the served build is never touched.
func TestRebuildSurvivesCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recs := history(rapid.Uint64().Draw(t, "seed"), 150)
		fs := vfs.NewCrashableMem()
		b := NewBuilds("views", memory(fs))
		served := serveBuild(t, b, testStream)
		crashes := rapid.IntRange(1, 4).Draw(t, "crashes")
		for n := range crashes + 1 {
			build, store, _, err := b.Begin(testStream, "")
			if err != nil {
				t.Fatal(err)
			}
			at := len(recs)
			if n < crashes {
				at = rapid.IntRange(0, len(recs)).Draw(t, "at")
			}
			for i := 0; i < at; {
				next := min(i+rapid.IntRange(1, 60).Draw(t, "batch"), at)
				if err := store.ApplyBatch(recs[:next]); err != nil {
					t.Fatal(err)
				}
				if rapid.IntRange(0, 3).Draw(t, "flush") == 0 {
					if err := store.flush(); err != nil {
						t.Fatal(err)
					}
				}
				i = next
			}
			if n < crashes {
				fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.IntRange(0, 100).Draw(t, "kept"), RNG: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "crash"), 1))})
				mustClose(t, store)
				b = NewBuilds("views", memory(fs))
				requireCurrent(t, b, served.ID)
				continue
			}
			requireModel(t, store, model(t, recs))
			if err := errors.Join(b.Ready(build, store, ""), b.Switch(build.ID)); err != nil {
				t.Fatal(err)
			}
			fs = fs.CrashClone(vfs.CrashCloneCfg{})
			b = NewBuilds("views", memory(fs))
			requireCurrent(t, b, build.ID)
			reopened, err := b.Open(build, testStream)
			if err != nil || !reopened.Clean() {
				t.Fatalf("clean %t: %v", reopened != nil && reopened.Clean(), err)
			}
			requireModel(t, reopened, model(t, recs))
			mustClose(t, reopened)
		}
	})
}

func TestCheckpointRestores(t *testing.T) {
	fs := vfs.NewMem()
	cfg := memory(fs)
	b := NewBuilds("views", cfg)
	serveBuild(t, b, testStream)
	recs := history(7, 120)
	now, err := b.Current()
	if err != nil {
		t.Fatal(err)
	}
	store, err := b.Open(now, testStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.ApplyBatch(recs[:60]); err != nil {
		t.Fatal(err)
	}
	offset, err := store.Checkpoint("snapshot")
	if err != nil || offset != recs[59].StreamSeq {
		t.Fatal(offset, err)
	}
	if err := store.ApplyBatch(recs[60:]); err != nil {
		t.Fatal(err)
	}
	elsewhere := NewBuilds("elsewhere", cfg)
	lock, err := elsewhere.Hold(RoleRebuild)
	if err != nil {
		t.Fatal(err)
	}
	build, err := elsewhere.Restore(testStream, "snapshot")
	if err != nil || build.Offset != offset || build.State != BuildReady {
		t.Fatalf("%+v: %v", build, err)
	}
	restored, err := elsewhere.Open(build, testStream)
	if err != nil {
		t.Fatal(err)
	}
	requireModel(t, restored, model(t, recs[:60]))
	if err := restored.ApplyBatch(recs); err != nil {
		t.Fatal(err)
	}
	proof, err := Prove(t.Context(), store, restored, 3)
	if err != nil || !proof.Equal() || proof.A.Rows == 0 || proof.A.Hash != proof.B.Hash {
		t.Fatalf("%+v: %v", proof, err)
	}
	mustClose(t, restored)
	mustClose(t, store)
	other := testStream
	other.Name = "OTHER"
	var foreign *ForeignStreamError
	if _, err := elsewhere.Restore(other, "snapshot"); !errors.As(err, &foreign) {
		t.Fatalf("a snapshot of another stream: %v", err)
	}
	if all, err := elsewhere.List(); err != nil || len(all) != 1 {
		t.Fatalf("%v, %v: a refused snapshot left a build", all, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

// One changed byte of a row is named, by both proofs.
func TestProveNamesTheRow(t *testing.T) {
	fs := vfs.NewMem()
	a, err := Open("a", memory(fs))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open("b", memory(fs))
	if err != nil {
		t.Fatal(err)
	}
	applying(t, 3, 200)(a)
	applying(t, 3, 200)(b)
	var victim Entry
	for entry, err := range b.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		victim = entry
	}
	victim.Row[len(victim.Row)-2] ^= 1
	if err := b.db.Set(rowKey(victim.Key), victim.Row, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	proof, err := Prove(t.Context(), a, b, 5)
	if err != nil || len(proof.Differences) != 1 || proof.Differences[0].Key != victim.Key {
		t.Fatalf("%v, %v; want the row %s", proof.Differences, err, victim.Key)
	}
	mustClose(t, a)
	mustClose(t, b)
}

func TestSkipHoles(t *testing.T) {
	s := mustOpen(t, memory(vfs.NewMem()))
	recs := history(5, 40)
	if err := s.ApplyBatch(recs[:20]); err != nil {
		t.Fatal(err)
	}
	at := s.Offset()
	if err := s.Skip(Hole{From: at + 2, To: at + 3}); err == nil {
		t.Fatal("skipped a hole that does not begin at the offset")
	}
	for range 2 {
		if err := s.Skip(Hole{From: at, To: at + 3, Proof: "purged"}); err != nil {
			t.Fatal(err)
		}
	}
	now, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	holes, err := now.Holes(10)
	if err != nil || !slices.Equal(holes, []Hole{{at + 1, at + 3, "purged"}}) || now.Missing() != 3 || now.Offset() != at+3 {
		t.Fatalf("%v, %d missing, at %d: %v", holes, now.Missing(), now.Offset(), err)
	}
	if err := now.Close(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}
