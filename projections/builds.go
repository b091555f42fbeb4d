package projections

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-json-experiment/json"
)

// Builds is a directory of stores that fold one log, and of the word which of
// them is served:
//
//	CURRENT                  the id of the served build; replaced whole, synced
//	builds/ID/build.json     what the build is: building, or ready
//	builds/ID/db/            its store
//	serve.lock, rebuild.lock held by who serves, and by who rebuilds
//
// A rebuild goes Begin (or goes on with what a killed one left), Store and
// Fold, Ready, Switch; until Switch nobody who reads notices.
type Builds struct {
	dir string
	cfg Config
	fs  vfs.FS
}

// Build says what a build is.
type Build struct {
	ID     string     `json:"id"`
	State  BuildState `json:"state"`
	From   string     `json:"from"`            // "log", or the snapshot it began with
	Begun  time.Time  `json:"begun"`           // for people
	Ready  time.Time  `json:"ready,omitzero"`  // for people
	Offset uint64     `json:"offset,omitzero"` // at which it became ready
	Proof  string     `json:"proof,omitzero"`  // how it was verified, "" = it was not
}

// BuildState is what a build is good for.
type BuildState string

// The states of a build.
const (
	BuildMaking BuildState = "building" // not to be served: not whole, or not verified
	BuildReady  BuildState = "ready"
)

// Role is a part that one process at a time has in a directory of builds.
type Role string

// The roles.
const (
	RoleServe   Role = "serve"
	RoleRebuild Role = "rebuild"
)

// ErrNoBuild says that there is no build such as was asked for.
var ErrNoBuild = errors.New("there is no such build")

// maxNote bounds the small files of a directory of builds, in bytes.
const maxNote = 64 << 10

// NewBuilds names a directory of builds. It touches nothing.
func NewBuilds(dir string, cfg Config) *Builds {
	cfg = cfg.withDefaults()
	return &Builds{dir: dir, cfg: cfg, fs: cfg.FS}
}

// Dir is the directory.
func (b *Builds) Dir() string { return b.dir }

// Hold takes a role, until Close or the end of the process. The error of a
// role that another one has is [*InUseError].
func (b *Builds) Hold(r Role) (io.Closer, error) {
	if err := b.prepare(); err != nil {
		return nil, err
	}
	lock, err := b.fs.Lock(b.path(string(r) + ".lock"))
	if err != nil {
		return nil, lockError(b.dir, string(r), err)
	}
	return lock, nil
}

// prepare makes the directory.
func (b *Builds) prepare() error {
	err := b.fs.MkdirAll(b.path("builds"), 0o755)
	if err == nil {
		err = errors.Join(b.sync(), b.syncDir(b.fs.PathDir(b.dir)))
	}
	if err != nil {
		return fmt.Errorf("projections: directory of builds %s: %w", b.dir, err)
	}
	return nil
}

// Current is the served build; [ErrNoBuild] while there is none.
func (b *Builds) Current() (Build, error) {
	text, err := b.read(b.path("CURRENT"))
	if errors.Is(err, fs.ErrNotExist) {
		return Build{}, fmt.Errorf("projections: current build of %s: %w", b.dir, ErrNoBuild)
	}
	if err != nil {
		return Build{}, fmt.Errorf("projections: current build: %w", err)
	}
	return b.Find(strings.TrimSpace(string(text)))
}

// Find looks a build up.
func (b *Builds) Find(id string) (Build, error) {
	if _, err := number(id); err != nil {
		return Build{}, err
	}
	text, err := b.read(b.path("builds", id, "build.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Build{}, fmt.Errorf("projections: build %s of %s: %w", id, b.dir, ErrNoBuild)
	}
	var found Build
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil || found.ID != id {
		return Build{}, fmt.Errorf("projections: build %s of %s: its build.json: %w", id, b.dir, errors.Join(ErrCorrupt, err))
	}
	return found, nil
}

// List are the builds, the oldest first. One that has lost its build.json is
// none.
func (b *Builds) List() ([]Build, error) {
	names, err := b.fs.List(b.path("builds"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("projections: builds of %s: %w", b.dir, err)
	}
	var out []Build
	for _, id := range names {
		if found, err := b.Find(id); err == nil {
			out = append(out, found)
		}
	}
	slices.SortFunc(out, func(x, y Build) int { return strings.Compare(x.ID, y.ID) })
	return out, nil
}

// Open opens the store of a build: for stream, if that is not empty.
func (b *Builds) Open(build Build, stream Stream, more ...func(*Config)) (*Store, error) {
	cfg := b.cfg
	cfg.Stream = stream
	for _, change := range more {
		change(&cfg)
	}
	if _, err := b.fs.Stat(b.StoreDir(build.ID)); err != nil {
		return nil, fmt.Errorf("projections: open build %s: %w", build.ID, errors.Join(ErrCorrupt, err))
	}
	return Open(b.StoreDir(build.ID), cfg)
}

// StoreDir is where the store of a build lies.
func (b *Builds) StoreDir(id string) string { return b.path("builds", id, "db") }

// Begin goes on with the build that an earlier rebuild left unfinished, if it
// folds stream with the views of this program; else it begins one, with the
// store in snapshot if that is not "". The caller has RoleRebuild.
func (b *Builds) Begin(stream Stream, snapshot string) (build Build, store *Store, resumed bool, err error) {
	all, err := b.List()
	if err != nil {
		return Build{}, nil, false, err
	}
	fast := func(c *Config) { c.NoWAL, c.BatchRecords, c.BatchBytes = true, 8<<10, 32<<20 }
	for _, old := range all {
		if old.State != BuildMaking {
			continue
		}
		if store, err = b.Open(old, stream, fast); err == nil {
			return old, store, true, nil
		}
		var used *InUseError
		if errors.As(err, &used) {
			return Build{}, nil, false, err
		}
		if err = b.remove(old.ID); err != nil { // never served: nothing is lost
			return Build{}, nil, false, err
		}
	}
	if build, err = b.create(snapshot); err != nil {
		return Build{}, nil, false, err
	}
	if snapshot == "" {
		cfg := b.cfg
		cfg.Stream = stream
		fast(&cfg)
		store, err = Open(b.StoreDir(build.ID), cfg)
	} else {
		store, err = b.Open(build, stream, fast)
	}
	return build, store, false, err
}

// create makes the directory of the next build.
func (b *Builds) create(snapshot string) (Build, error) {
	if err := b.prepare(); err != nil {
		return Build{}, err
	}
	id, err := b.nextID()
	if err != nil {
		return Build{}, err
	}
	build := Build{ID: id, State: BuildMaking, From: "log", Begun: time.Now().UTC()}
	if err := b.fs.MkdirAll(b.path("builds", id), 0o755); err != nil {
		return Build{}, fmt.Errorf("projections: begin build %s: %w", id, err)
	}
	if snapshot != "" {
		build.From = snapshot
		if ok, err := vfs.Clone(b.fs, b.fs, snapshot, b.StoreDir(id), vfs.CloneSync); err != nil || !ok {
			return Build{}, errors.Join(fmt.Errorf("projections: copy of snapshot %s: %w", snapshot, errors.Join(err, orMissing(ok))), b.remove(id))
		}
	}
	if err := b.write(build); err != nil {
		return Build{}, err
	}
	return build, b.sync("builds")
}

// Restore makes a ready build of a snapshot, which must be of stream and of the
// views of this program. It is not served before Switch.
func (b *Builds) Restore(stream Stream, snapshot string) (Build, error) {
	build, err := b.create(snapshot)
	if err != nil {
		return Build{}, err
	}
	store, err := b.Open(build, stream)
	if err != nil {
		return Build{}, errors.Join(fmt.Errorf("projections: restore %s: %w", snapshot, err), b.remove(build.ID))
	}
	if err := b.Ready(build, store, ""); err != nil {
		return Build{}, err
	}
	return b.Find(build.ID)
}

func orMissing(there bool) error {
	if there {
		return nil
	}
	return fs.ErrNotExist
}

// nextID counts on from the highest that is there, removed builds aside.
func (b *Builds) nextID() (string, error) {
	names, err := b.fs.List(b.path("builds"))
	if err != nil {
		return "", fmt.Errorf("projections: builds of %s: %w", b.dir, err)
	}
	highest := 0
	for _, name := range names {
		if n, err := number(name); err == nil {
			highest = max(highest, n)
		}
	}
	return fmt.Sprintf("b%06d", highest+1), nil
}

// number is the number in a build's id.
func number(id string) (int, error) {
	digits, ok := strings.CutPrefix(id, "b")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || fmt.Sprintf("b%06d", n) != id {
		return 0, fmt.Errorf("projections: %q is no id of a build, such as b000001", id)
	}
	return n, nil
}

// Ready closes the store of a build that is whole, and notes how that was
// proven: from then on it may be served.
func (b *Builds) Ready(build Build, store *Store, proof string) error {
	build.State, build.Ready, build.Offset, build.Proof = BuildReady, time.Now().UTC(), store.Offset(), proof
	if err := store.Close(); err != nil {
		return err
	}
	return b.write(build)
}

// Switch has a ready build served, by one write: CURRENT is replaced.
func (b *Builds) Switch(id string) error {
	build, err := b.Find(id)
	if err != nil {
		return err
	}
	if build.State != BuildReady {
		return fmt.Errorf("projections: switch to build %s: it is not ready", id)
	}
	if err := b.replace(b.path("CURRENT"), []byte(id+"\n")); err != nil {
		return fmt.Errorf("projections: switch to build %s: %w", id, err)
	}
	return nil
}

// Rollback has the newest ready build before the served one served again.
func (b *Builds) Rollback() (Build, error) {
	now, err := b.Current()
	if err != nil {
		return Build{}, err
	}
	all, err := b.List()
	if err != nil {
		return Build{}, err
	}
	for _, old := range slices.Backward(all) {
		if old.State == BuildReady && old.ID < now.ID {
			return old, b.Switch(old.ID)
		}
	}
	return Build{}, fmt.Errorf("projections: roll back from build %s: none before it was kept: %w", now.ID, ErrNoBuild)
}

// Prune removes old builds but for the newest keep: never the served one, none
// that a process has open, none newer than the served one.
func (b *Builds) Prune(keep int) (removed []string, err error) {
	now, err := b.Current()
	if err != nil {
		return nil, err
	}
	all, err := b.List()
	if err != nil {
		return nil, err
	}
	old := slices.DeleteFunc(all, func(x Build) bool { return x.ID >= now.ID })
	for _, x := range old[:max(len(old)-max(keep, 0), 0)] {
		lock, err := pebble.LockDirectory(b.StoreDir(x.ID), b.fs)
		if err != nil {
			continue // somebody reads it
		}
		if err := errors.Join(b.remove(x.ID), lock.Close()); err != nil {
			return removed, err
		}
		removed = append(removed, x.ID)
	}
	return removed, nil
}

// remove takes build.json away first: half a build is none.
func (b *Builds) remove(id string) error {
	err := b.fs.Remove(b.path("builds", id, "build.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = b.fs.RemoveAll(b.path("builds", id))
	}
	if err != nil {
		return fmt.Errorf("projections: remove build %s: %w", id, err)
	}
	return nil
}

func (b *Builds) write(build Build) error {
	text, err := json.Marshal(build)
	if err == nil {
		err = b.replace(b.path("builds", build.ID, "build.json"), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("projections: note of build %s: %w", build.ID, err)
	}
	return nil
}

// replace writes a file beside, syncs it, renames it, syncs the directory: a
// crash leaves the old one or the new one.
func (b *Builds) replace(path string, text []byte) error {
	f, err := b.fs.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := b.fs.Rename(path+".new", path); err != nil {
		return err
	}
	return b.syncDir(b.fs.PathDir(path))
}

func (b *Builds) sync(under ...string) error { return b.syncDir(b.path(under...)) }

func (b *Builds) syncDir(path string) error {
	dir, err := b.fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (b *Builds) read(path string) ([]byte, error) {
	f, err := b.fs.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxNote))
	return text, errors.Join(err, f.Close())
}

func (b *Builds) path(under ...string) string {
	return b.fs.PathJoin(append([]string{b.dir}, under...)...)
}
