package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loopd/loopd/replay"
)

// The exit statuses of Main.
const (
	ExitHeld    = 0 // everything held
	ExitNotHeld = 1 // a step, an expectation or a rule did not hold
	ExitUnread  = 2 // a file cannot be read, or not be played
)

// Main runs scenario files one after another and tells what they showed: with
// o.Jsonl set, stdout is left to it; else the log of a single file, a line a
// file, and a closing line. What does not hold goes to stderr, with the file's
// line. It returns the exit status.
func Main(ctx context.Context, files []string, o Options, stdout, stderr io.Writer) int {
	talk := stdout
	if o.Jsonl != nil {
		talk = stderr
	} else if len(files) == 1 {
		o.Table = stdout
	}
	keep := o.KeepDir
	passed, failed, exit := 0, 0, ExitHeld
	for _, file := range files {
		if keep != "" && len(files) > 1 {
			o.KeepDir = filepath.Join(keep, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
		}
		status := runFile(ctx, file, o, talk, stderr)
		exit = max(exit, status)
		if status == ExitHeld {
			passed++
		} else {
			failed++
		}
	}
	_, _ = fmt.Fprintf(talk, "%d passed, %d failed\n", passed, failed)
	return exit
}

func runFile(ctx context.Context, file string, o Options, talk, stderr io.Writer) int {
	sc, err := Load(file)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, reason(err))
		return ExitUnread
	}
	report, err := Run(ctx, sc, o)
	for _, f := range report.Failures {
		_, _ = fmt.Fprintln(stderr, f.in(file))
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: not played: %v\n", file, err)
		return ExitUnread
	case len(report.Failures) > 0:
		_, _ = fmt.Fprintf(talk, "FAIL  %s  %s\n", file, sc.About)
		return ExitNotHeld
	}
	played := fmt.Sprintf("%d events", report.Events)
	if report.Crashes > 0 {
		played += fmt.Sprintf(", %d crashes", report.Crashes)
	}
	_, _ = fmt.Fprintf(talk, "ok    %s  %s (%s)\n", file, sc.About, played)
	return ExitHeld
}

// reason is an error of Load for a person: a ParseError names file and line
// already.
func reason(err error) string {
	var at *ParseError
	if errors.As(err, &at) {
		return at.Error()
	}
	return err.Error()
}

// in is the failure with its place.
func (f Failure) in(file string) string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", file, f.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", file, f.Line, f.Msg)
}

// show writes the log as it was asked for.
func show(o Options, sc *Scenario, log []seen, names *Names) error {
	for _, e := range log {
		if o.Jsonl != nil {
			if err := replay.WriteJSONL(o.Jsonl, e.Record); err != nil {
				return err
			}
		}
		if o.Table != nil {
			if _, err := io.WriteString(o.Table, row(e, names)); err != nil {
				return fmt.Errorf("scenario: write the log of %s: %w", sc.File, err)
			}
		}
	}
	return nil
}

// unshown are the fields that a row shows in columns of its own, or that no
// person reads: whoever needs them takes the JSON lines.
var unshown = map[string]bool{"version": true, "id": true, "type": true, "session_id": true, "sequence": true,
	"epoch": true, "time": true, "prev": true, "cause": true,
	"digest": true, "input": true, "inbox_seq": true, "request_digest": true, "response_digest": true, "response_bytes": true,
	"service_id": true, "descriptor_revision": true, "completed_steps": true, "remaining_steps": true}

// row is one line of the table: sequence, epoch, type, and the event's own
// fields; an id that the file names stands under its $name.
func row(e seen, names *Names) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%4s  %s  %-28s", e.event.Sequence, e.event.Epoch, e.event.Type)
	for _, key := range slices.Sorted(maps.Keys(e.fields)) {
		value := e.fields[key]
		if list, ok := value.([]any); unshown[key] || value == false || ok && len(list) == 0 {
			continue
		}
		fmt.Fprintf(&b, " %s=%s", key, short(names.Named(value)))
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// maxShown bounds a field in the table, in characters.
const maxShown = 60

func short(v any) string {
	s := fmt.Sprint(v)
	if text, ok := v.(string); ok && (text == "" || strings.ContainsAny(text, " \n\t=")) {
		s = fmt.Sprintf("%q", text)
	}
	if utf8.RuneCountInString(s) > maxShown {
		s = string([]rune(s)[:maxShown-1]) + "…"
	}
	return s
}
