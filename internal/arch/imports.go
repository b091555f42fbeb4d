package arch

import (
	"maps"
	"slices"
	"strings"
)

// Row says what a package may import directly. A pattern that ends in "/..."
// means the folder and everything below; "..." alone means everything.
type Row struct {
	Package string   // folder from the root; the first row that matches counts
	Ours    []string // packages of this module, as folders
	Foreign []string // modules, or packages of them
	Banned  []string // packages of the standard library, with what lies below them
	NoClock bool     // may not ask what time it is, nor wait
	Tests   bool     // exists for tests: no package but tests and its like may import it
}

// pure is what a package may not touch whose results depend on its arguments
// alone.
var pure = []string{"os", "net", "context", "sync", "log", "math/rand", "crypto/rand", "reflect", "syscall"}

// ambient are the functions of package time that read the clock or wait.
var ambient = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

const (
	jsonModule = "github.com/go-json-experiment/json/..."
	ulidModule = "github.com/oklog/ulid/v2"
)

// Table is the import table of ARCHITECTURE.md. Where it goes beyond the
// first design, docs/decisions says why.
var Table = []Row{
	{Package: "event", Foreign: []string{ulidModule, jsonModule}, Banned: pure, NoClock: true},
	{Package: "loop", Ours: []string{"event"}, Banned: pure, NoClock: true},
	{Package: "schemas", Ours: []string{"event"}, Foreign: []string{"github.com/santhosh-tekuri/jsonschema/v6/...", jsonModule}, Banned: pure, NoClock: true},
	{Package: "projections/view", Ours: []string{"event", "loop"}, Foreign: []string{jsonModule}, Banned: pure, NoClock: true},
	{Package: "replay", Ours: []string{"event", "loop", "projections/view", "schemas"}, Foreign: []string{jsonModule}, Banned: pure, NoClock: true},

	{Package: "eventlog", Ours: []string{"event", "schemas"}, Foreign: []string{"github.com/nats-io/nats.go/..."}},
	{Package: "projections", Ours: []string{"event", "projections/view"}, Foreign: []string{"github.com/cockroachdb/pebble/v2/...", jsonModule}},
	{Package: "host", Ours: []string{"event", "eventlog"}, Foreign: []string{jsonModule}},

	{Package: "internal/runner", Ours: []string{"event", "loop"}, Foreign: []string{ulidModule}, Banned: []string{"net", "os"}},
	{Package: "internal/provider/responses", Ours: []string{"event", "loop", "internal/provider/..."}, Foreign: []string{"github.com/coder/websocket", jsonModule}},
	{Package: "internal/provider/...", Ours: []string{"event", "loop", "internal/provider/..."}, Foreign: []string{jsonModule}},
	{Package: "internal/tool/mcp", Ours: []string{"event", "loop"}, Foreign: []string{"github.com/modelcontextprotocol/go-sdk/...", jsonModule}},
	{Package: "internal/tool/nats", Ours: []string{"event", "loop", "internal/tool/..."}, Foreign: []string{"github.com/nats-io/nats.go/...", jsonModule}},
	{Package: "internal/tool/...", Ours: []string{"event", "loop", "internal/tool/..."}, Foreign: []string{jsonModule}},
	{Package: "internal/console", Ours: []string{"event", "projections", "projections/view", "replay"}, Foreign: []string{jsonModule}},
	{Package: "internal/natsembed", Foreign: []string{"github.com/nats-io/nats-server/v2/...", "golang.org/x/sys/unix"}},
	{Package: "internal/scenario", Ours: []string{"..."}, Foreign: []string{"github.com/goccy/go-yaml/...", jsonModule, ulidModule}},
	{Package: "internal/sim", Ours: []string{"..."}, Foreign: []string{jsonModule, ulidModule}, Banned: []string{"net"}, NoClock: true, Tests: true},
	{Package: "internal/logtest", Ours: []string{"..."}, Foreign: []string{jsonModule, ulidModule}, Banned: []string{"net"}, NoClock: true, Tests: true},
	{Package: "internal/arch"},
	{Package: "internal/bench/...", Ours: []string{"..."}, Foreign: []string{"github.com/nats-io/nats.go/..."}},
	{Package: "cmd/...", Ours: []string{"..."}, Foreign: []string{"..."}},
}

// Imports judges every Go file by the table. Test files may import anything
// but cmd.
func (t *Tree) Imports(table []Row) []Finding {
	var found []Finding
	for _, f := range t.Files {
		row, ok := rowOf(table, f.Dir)
		if !ok {
			found = append(found, t.finding(f.ast, "package %s has no row in the import table; add one", f.Dir))
			continue
		}
		imports := f.imports()
		for _, p := range slices.Sorted(maps.Keys(imports)) {
			if what := t.judge(table, row, f, p); what != "" {
				found = append(found, t.finding(imports[p], "%s", what))
			}
		}
		if row.NoClock && !f.Test {
			for _, use := range f.uses("time", ambient...) {
				found = append(found, t.finding(use, "package %s uses time.%s; take the time as an argument", f.Dir, use.Sel.Name))
			}
		}
	}
	return found
}

// judge says what is wrong with one import, "" for nothing.
func (t *Tree) judge(table []Row, row Row, f File, importPath string) string {
	dir, ours := strings.CutPrefix(importPath, t.Module+"/")
	switch {
	case ours && matches(dir, "cmd/..."):
		return "nobody imports cmd"
	case f.Test:
		return ""
	case ours:
		if target, ok := rowOf(table, dir); ok && target.Tests && !row.Tests {
			return "package " + dir + " is for tests only"
		}
		if !matchesAny(dir, row.Ours) {
			return "package " + f.Dir + " may not import " + dir
		}
	case foreign(importPath):
		if !matchesAny(importPath, row.Foreign) {
			return "package " + f.Dir + " may not import " + importPath
		}
	default:
		for _, banned := range row.Banned {
			if matches(importPath, banned+"/...") {
				return "package " + f.Dir + " may not touch " + importPath + "; take what it gives as an argument"
			}
		}
	}
	return ""
}

func rowOf(table []Row, dir string) (Row, bool) {
	for _, row := range table {
		if matches(dir, row.Package) {
			return row, true
		}
	}
	return Row{}, false
}

// foreign: the first element of an import path of another module has a dot.
func foreign(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(first, ".")
}

func matchesAny(p string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(p, pattern) })
}

func matches(p, pattern string) bool {
	if pattern == "..." {
		return true
	}
	if root, below := strings.CutSuffix(pattern, "/..."); below {
		return p == root || strings.HasPrefix(p, root+"/")
	}
	return p == pattern
}
