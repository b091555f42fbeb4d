package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// root is the module's folder: the nearest above with a go.mod.
func root(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

func TestModule(t *testing.T) {
	tree, err := Load(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Files) < 100 || len(tree.Packages()) < 10 {
		t.Fatalf("read %d files of %d packages: that is not the whole module", len(tree.Files), len(tree.Packages()))
	}
	for name, found := range map[string][]Finding{
		"imports":   tree.Imports(Table),
		"sizes":     tree.Sizes(House),
		"sentinels": tree.Sentinels(House),
		"waits":     tree.Waits(Table),
		"skips":     tree.Skips(),
		"marks":     tree.Marks(),
		"places":    tree.Places(),
	} {
		for _, f := range found {
			t.Errorf("%s: %s", name, f)
		}
	}
}

func TestTableHasNoDeadRows(t *testing.T) {
	later := map[string]bool{"internal/console": true, "internal/sim": true} // not there yet
	tree, err := Load(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range Table {
		used := later[row.Package]
		for _, dir := range tree.Packages() {
			used = used || matches(dir, row.Package)
		}
		if !used {
			t.Errorf("row %s: no such package", row.Package)
		}
	}
}

// plant is a module of the given files, loaded.
func plant(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.test/m\n\ngo 1.26\n")}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// want fails unless exactly one finding holds each of the texts, in order.
func want(t *testing.T, found []Finding, texts ...string) {
	t.Helper()
	if len(found) != len(texts) {
		t.Errorf("found %d, want %d: %v", len(found), len(texts), found)
		return
	}
	for i, text := range texts {
		if !strings.Contains(found[i].String(), text) {
			t.Errorf("finding %d is %q, want %q in it", i, found[i], text)
		}
	}
}

func TestImportsFindsPlanted(t *testing.T) {
	for _, c := range []struct{ name, path, source, finding string }{
		{"unlisted package", "novel/a.go", "package novel", "package novel has no row"},
		{"ours against the table", "event/a.go", `package event; import _ "example.test/m/loop"`, "package event may not import loop"},
		{"foreign against the table", "loop/a.go", `package loop; import _ "github.com/nats-io/nats.go"`, "may not import github.com/nats-io/nats.go"},
		{"other platform", "loop/a_plan9.go", `package loop; import _ "github.com/oklog/ulid/v2"`, "may not import github.com/oklog/ulid/v2"},
		{"second foreign one", "internal/natsembed/a.go", `package natsembed; import _ "github.com/nats-io/nats.go"`, "may not import"},
		{"banned std", "replay/a.go", `package replay; import _ "os"`, "may not touch os"},
		{"below banned std", "loop/a.go", `package loop; import _ "log/slog"`, "may not touch log/slog"},
		{"network in the runner", "internal/runner/a.go", `package runner; import _ "net/http"`, "may not touch net/http"},
		{"clock", "loop/a.go", `package loop; import "time"; var x = time.Now()`, "uses time.Now"},
		{"clock by another name", "loop/a.go", `package loop; import clock "time"; var x = clock.Now`, "uses time.Now"},
		{"waiting", "event/a.go", `package event; import "time"; func f() { time.Sleep(1) }`, "uses time.Sleep"},
		{"cmd", "internal/scenario/a.go", `package scenario; import _ "example.test/m/cmd/loopd"`, "nobody imports cmd"},
		{"cmd from a test", "loop/a_test.go", `package loop; import _ "example.test/m/cmd/loopd"`, "nobody imports cmd"},
		{"test suite in the product", "internal/scenario/a.go", `package scenario; import _ "example.test/m/internal/logtest"`, "for tests only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, plant(t, map[string]string{c.path: c.source}).Imports(Table), c.finding)
		})
	}
}

func TestImportsAllows(t *testing.T) {
	want(t, plant(t, map[string]string{
		"event/a.go":            `package event; import _ "github.com/oklog/ulid/v2"; import _ "github.com/go-json-experiment/json/jsontext"; import "time"; var d = time.Second`,
		"loop/a.go":             `package loop; import _ "example.test/m/event"`,
		"loop/a_test.go":        `package loop; import _ "os"; import "time"; import _ "example.test/m/internal/logtest"; var n = time.Now()`,
		"replay/testdata/b.go":  `package b; import _ "os"`,
		"internal/runner/r.go":  `package runner; import "time"; var n = time.Now()`,
		"internal/logtest/l.go": `package logtest; import _ "example.test/m/eventlog"`,
		"cmd/loopd/main.go":     `package main; import _ "github.com/spf13/cobra"; import _ "example.test/m/internal/scenario"`,
	}).Imports(Table))
}

func TestSizesFindsPlanted(t *testing.T) {
	limits := Limits{FunctionLines: 3, FileLines: 10, PackageLines: 5, Exceptions: map[string]Exception{"large": {PackageLines: 7}}}
	code := func(lines int) string { return "package p\n" + strings.Repeat("\n\nvar _ = 1\n// words\n", lines-1) }
	for _, c := range []struct {
		name     string
		files    map[string]string
		findings []string
	}{
		{"function", map[string]string{"p/a.go": "package p\n\nfunc long() {\n\n\n}\n"}, []string{"function long has 4 lines, at most 3"}},
		{"method", map[string]string{"p/a_test.go": "package p\n\nfunc (t T) long() {\n\n\n}\n"}, []string{"function long has 4 lines"}},
		{"function that fits", map[string]string{"p/a.go": "package p\n\nfunc ok() {\n\n}\n"}, nil},
		{"table of a test", map[string]string{"p/a_test.go": "package p\n\nfunc f() {\n_ = []int{\n1,\n2,\n}}\n"}, nil},
		{"table elsewhere", map[string]string{"large/a.go": "package p\n\nfunc f() {\n_ = []int{\n1,\n2,\n}}\n"}, []string{"function f has 5 lines"}},
		{"file", map[string]string{"p/a_test.go": "package p\n" + strings.Repeat("\n", 10)}, []string{"11 lines, at most 10"}},
		{"package", map[string]string{"p/a.go": code(3), "p/b.go": code(3)}, []string{"p: package has 6 lines of code, at most 5"}},
		{"package that fits", map[string]string{"p/a.go": code(3), "p/b.go": code(2), "p/b_test.go": code(3)}, nil},
		{"exception", map[string]string{"large/a.go": code(3), "large/b.go": code(3)}, nil},
		{"beyond its exception", map[string]string{"large/a.go": code(3), "large/b.go": code(3), "large/c.go": code(2)},
			[]string{"large: package has 8 lines of code, at most 7"}},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, plant(t, c.files).Sizes(limits), c.findings...) })
	}
}

func TestExceptionsAreNeeded(t *testing.T) {
	tree, err := Load(os.DirFS(root(t)))
	if err != nil {
		t.Fatal(err)
	}
	strict := House
	strict.Exceptions = nil
	for dir := range House.Exceptions {
		needed := false
		for _, f := range tree.Sizes(strict) {
			needed = needed || f.Where == dir
		}
		if !needed {
			t.Errorf("package %s fits now: take its exception out", dir)
		}
	}
}

func TestSentinelsFindsPlanted(t *testing.T) {
	limits := Limits{PackageSentinels: 2}
	two := "package p\n\nimport \"errors\"\n\nvar (\n\tErrA = errors.New(\"a\")\n\tErrB = errors.New(\"b\")\n\terrOwn = errors.New(\"c\")\n)\n"
	want(t, plant(t, map[string]string{"p/a.go": two}).Sentinels(limits))
	want(t, plant(t, map[string]string{
		"p/a.go": two, "p/b.go": "package p\n\nimport \"errors\"\n\nvar ErrC = errors.New(\"d\")\n",
	}).Sentinels(limits), "3 sentinels (ErrA, ErrB, ErrC), at most 2")
}

func TestWaitsFindsPlanted(t *testing.T) {
	sleeps := "package p\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"
	want(t, plant(t, map[string]string{"p/a_test.go": sleeps}).Waits(Table), "p/a_test.go:5: a test sleeps")
	want(t, plant(t, map[string]string{"internal/logtest/a.go": sleeps}).Waits(Table), "a test sleeps")
	want(t, plant(t, map[string]string{"p/a.go": sleeps}).Waits(Table))
}

func TestSkipsFindsPlanted(t *testing.T) {
	for _, call := range []string{"t.Sk" + "ip()", "tb.Sk" + "ipf(``)", "b.Sk" + "ipNow()"} {
		want(t, plant(t, map[string]string{"p/a_test.go": "package p\n\nfunc f() { " + call + " }\n"}).Skips(), "a test skips itself")
	}
	want(t, plant(t, map[string]string{"p/a_test.go": "package p\n\nfunc f() { reader.Skip(2) }\n"}).Skips())
}

func TestMarksFindsPlanted(t *testing.T) {
	for _, mark := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"} {
		want(t, plant(t, map[string]string{"docs/a.md": "fine\n" + mark + ": later\n"}).Marks(), "docs/a.md:2: unfinished work")
		want(t, plant(t, map[string]string{"docs/a.md": "x" + mark + "\n", "p/testdata/a.json": mark}).Marks())
	}
}

func TestPlacesFindsPlanted(t *testing.T) {
	for _, place := range []string{
		"see /wor" + "k/x", "\"/hom" + "e/me/x\"", "/roo" + "t/.cache", "GO" + "PROXY=off", "https://proxy.gola" + "ng.org/x",
	} {
		want(t, plant(t, map[string]string{"p/testdata/a.txt": place + "\n"}).Places(), "p/testdata/a.txt:1: a path or host")
	}
	want(t, plant(t, map[string]string{"docs/a.md": "see internal/wor" + "k/x, https://example.test/hom" + "e/x, ./wor" + "k/\n"}).Places())
}

func TestLoadWithoutModule(t *testing.T) {
	if _, err := Load(fstest.MapFS{}); err == nil {
		t.Error("a tree without go.mod loaded")
	}
}
