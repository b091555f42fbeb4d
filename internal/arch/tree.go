package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tree is the module as it lies on disk.
type Tree struct {
	Module string // its path, from go.mod
	Files  []File // the Go files, by path; testdata aside
	Texts  []Text // every text file, testdata included

	fset *token.FileSet
}

// File is one parsed Go file.
type File struct {
	Path  string // from the root, with slashes
	Dir   string // its package: the folder from the root
	Test  bool   // a _test.go file
	Lines int
	Code  int // lines that hold more than blanks and comments

	ast *ast.File
}

// Text is one text file.
type Text struct {
	Path string
	Data []byte
}

// Finding is one place where a rule does not hold.
type Finding struct {
	Where string // path, or path:line
	What  string // what is wrong, and what to do about it
}

func (f Finding) String() string { return f.Where + ": " + f.What }

// ignored are folders that are never committed (.gitignore).
var ignored = []string{".git", "bin", "bench", "loopd-data"}

// Load reads the module whose root is fsys.
func Load(fsys fs.FS) (*Tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("arch: load: %w", err)
	}
	t := &Tree{Module: modulePath(mod), fset: token.NewFileSet()}
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(ignored, name) || strings.HasSuffix(name, "/testdata/rapid")):
			return fs.SkipDir
		case d.Type().IsRegular():
			return t.add(fsys, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("arch: load: %w", err)
	}
	return t, nil
}

func (t *Tree) add(fsys fs.FS, name string) error {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 {
		return nil // not text
	}
	t.Texts = append(t.Texts, Text{Path: name, Data: b})
	if path.Ext(name) != ".go" || inTestdata(name) {
		return nil
	}
	parsed, err := parser.ParseFile(t.fset, name, b, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.Files = append(t.Files, File{
		Path: name, Dir: path.Dir(name), Test: strings.HasSuffix(name, "_test.go"),
		Lines: bytes.Count(b, []byte("\n")), Code: codeLines(b), ast: parsed,
	})
	return nil
}

// codeLines counts the lines on which a token stands.
func codeLines(src []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := file.Line(pos)
		for n := range 1 + strings.Count(lit, "\n") {
			lines[first+n] = true
		}
	}
}

func (t *Tree) finding(at ast.Node, format string, args ...any) Finding {
	p := t.fset.Position(at.Pos())
	return Finding{Where: fmt.Sprintf("%s:%d", p.Filename, p.Line), What: fmt.Sprintf(format, args...)}
}

func (t *Tree) line(at token.Pos) int { return t.fset.Position(at).Line }

// Packages are the folders that hold Go files, in order.
func (t *Tree) Packages() []string {
	var dirs []string
	for _, f := range t.Files {
		dirs = append(dirs, f.Dir)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func inTestdata(name string) bool { return slices.Contains(strings.Split(name, "/"), "testdata") }

func modulePath(mod []byte) string {
	for line := range bytes.Lines(mod) {
		if fields := bytes.Fields(line); len(fields) == 2 && string(fields[0]) == "module" {
			return string(fields[1])
		}
	}
	return ""
}

// imports are the import paths of a file, and the name that each has there.
func (f File) imports() map[string]*ast.ImportSpec {
	m := map[string]*ast.ImportSpec{}
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			m[p] = spec
		}
	}
	return m
}

// localName is what the file calls the package of an import path, "" if it
// does not import it.
func (f File) localName(importPath string) string {
	spec, ok := f.imports()[importPath]
	switch {
	case !ok:
		return ""
	case spec.Name != nil:
		return spec.Name.Name
	}
	return path.Base(importPath)
}

// uses are the mentions of pkg.name in a file, for the names given.
func (f File) uses(importPath string, names ...string) []*ast.SelectorExpr {
	local := f.localName(importPath)
	if local == "" {
		return nil
	}
	var found []*ast.SelectorExpr
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, sel.Sel.Name) {
			found = append(found, sel)
		}
		return true
	})
	return found
}
