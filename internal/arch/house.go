package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits bound the size of what a reader must take in at once.
type Limits struct {
	FunctionLines    int // a test's table of cases aside: it is data
	FileLines        int
	PackageLines     int // lines with code on them, tests aside
	PackageSentinels int // variables Err… = errors.New(…)

	Exceptions map[string]Exception // by package
}

// Exception is a package that may be larger, and why.
type Exception struct {
	PackageLines int
	Reason       string
}

// House are the limits of this module.
var House = Limits{
	FunctionLines: 70, FileLines: 600, PackageLines: 2500, PackageSentinels: 5,
	Exceptions: map[string]Exception{
		"loop":              {3300, "Decide, Evolve and Next look at one State from three sides; a border between them would have to export all of it"},
		"replay":            {2900, "one ledger, and the rules that read it; the rules are many, short, and of one form"},
		"internal/scenario": {3100, "the file format, its player and its checks share the names that a file binds"},
	},
}

// Sizes finds functions, files and packages beyond the limits.
func (t *Tree) Sizes(limits Limits) []Finding {
	var found []Finding
	packages := map[string]int{}
	for _, f := range t.Files {
		if !f.Test {
			packages[f.Dir] += f.Code
		}
		if f.Lines > limits.FileLines {
			found = append(found, t.finding(f.ast, "%d lines, at most %d; split it by nouns", f.Lines, limits.FileLines))
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := t.span(fn) - t.tables(f, fn); n > limits.FunctionLines {
				found = append(found, t.finding(fn, "function %s has %d lines, at most %d; give its steps names", fn.Name.Name, n, limits.FunctionLines))
			}
		}
	}
	for _, dir := range t.Packages() {
		most := max(limits.PackageLines, limits.Exceptions[dir].PackageLines)
		if n := packages[dir]; n > most {
			found = append(found, Finding{Where: dir, What: fmt.Sprintf("package has %d lines of code, at most %d; split it", n, most)})
		}
	}
	return found
}

func (t *Tree) span(n ast.Node) int { return t.line(n.End()) - t.line(n.Pos()) + 1 }

// tables are the lines that a test function spends on composite literals.
func (t *Tree) tables(f File, fn *ast.FuncDecl) int {
	lines := 0
	if !f.Test {
		return lines
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		if table, ok := n.(*ast.CompositeLit); ok {
			lines += t.span(table) - 1
			return false
		}
		return true
	})
	return lines
}

// Sentinels finds packages with more error variables than callers can know.
func (t *Tree) Sentinels(limits Limits) []Finding {
	names := map[string][]string{}
	for _, f := range t.Files {
		if f.Test {
			continue
		}
		for _, d := range f.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				names[f.Dir] = append(names[f.Dir], sentinels(g, f.localName("errors"))...)
			}
		}
	}
	var found []Finding
	for _, dir := range t.Packages() {
		if n := names[dir]; len(n) > limits.PackageSentinels {
			found = append(found, Finding{Where: dir, What: fmt.Sprintf("%d sentinels (%s), at most %d; use a type where callers need fields",
				len(n), strings.Join(n, ", "), limits.PackageSentinels)})
		}
	}
	return found
}

// sentinels are the exported error variables of a declaration.
func sentinels(g *ast.GenDecl, errorsName string) []string {
	var names []string
	for _, s := range g.Specs {
		v := s.(*ast.ValueSpec)
		for i, value := range v.Values {
			call, ok := value.(*ast.CallExpr)
			if !ok || i >= len(v.Names) || !strings.HasPrefix(v.Names[i].Name, "Err") {
				continue
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "New" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == errorsName {
					names = append(names, v.Names[i].Name)
				}
			}
		}
	}
	return names
}

// Waits finds tests that wait for a time instead of a signal, in test files
// and in packages that exist for tests.
func (t *Tree) Waits(table []Row) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if row, _ := rowOf(table, f.Dir); !f.Test && !row.Tests {
			continue
		}
		for _, use := range f.uses("time", "Sleep") {
			found = append(found, t.finding(use, "a test sleeps; wait for a signal, with a deadline"))
		}
	}
	return found
}

// Skips finds tests that may leave themselves out: what does not run does not
// hold.
func (t *Tree) Skips() []Finding {
	names := []string{"Skip", "Skipf", "SkipNow"}
	receivers := []string{"t", "tb", "b", "f", "rt"}
	var found []Finding
	for _, f := range t.Files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(names, sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(receivers, x.Name) {
					found = append(found, t.finding(call, "a test skips itself; bring what it needs along"))
				}
			}
			return true
		})
	}
	return found
}

// unfinished are marks of work that was left open. They are put together here
// so that this file does not find itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// foreignPlaces are paths and hosts that exist on somebody's machine only.
var foreignPlaces = regexp.MustCompile(`(^|[^A-Za-z0-9_.~/-])/(wor` + `k|far` + `m|roo` + `t|hom` + `e|User` + `s)/` +
	`|GO` + `PROXY|\b(proxy\.gola` + `ng|sum\.gola` + `ng|artifac` + `tory|registry\.np` + `mjs)\b`)

// Marks finds unfinished marks; recorded data may hold any words.
func (t *Tree) Marks() []Finding {
	return t.grep(unfinished, "unfinished work; finish it, or write down in docs what is not there", func(name string) bool {
		return !inTestdata(name)
	})
}

// Places finds what ties a file to one machine.
func (t *Tree) Places() []Finding {
	return t.grep(foreignPlaces, "a path or host of one machine", func(name string) bool {
		return path.Base(name) != "go.sum"
	})
}

func (t *Tree) grep(pattern *regexp.Regexp, what string, reads func(name string) bool) []Finding {
	var found []Finding
	for _, text := range t.Texts {
		if !reads(text.Path) {
			continue
		}
		n := 0
		for line := range bytes.Lines(text.Data) {
			n++
			if m := pattern.Find(bytes.TrimRight(line, "\n")); m != nil {
				found = append(found, Finding{Where: fmt.Sprintf("%s:%d", text.Path, n), What: fmt.Sprintf("%s: %q", what, m)})
			}
		}
	}
	return found
}
