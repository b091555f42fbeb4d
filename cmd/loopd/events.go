package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/replay"
)

const eventsHelp = `Events prints the log: what is stored, up to the head; with --follow what is to
come, too, until it is interrupted. It only reads.

With --json each event is one line, {"stream_seq": 12, "subject": "…", "event": {…}},
the event's bytes as they are stored.`

// reading is what the flags of events say.
type reading struct {
	session string
	from    uint64
	follow  bool
	asJSON  bool
}

func eventsCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "events", Short: "Print the log, or follow it (only reads)", Long: eventsHelp,
		Args: usage(cobra.NoArgs),
		Example: `  loopd events --session s1
  loopd events --follow --json
  loopd events --data ./loopd-data --session s1`,
	}
	f := addFlags(cmd, connection)
	var r reading
	cmd.Flags().StringVar(&r.session, "session", "", "events of session `ID` alone (default all)")
	cmd.Flags().Uint64Var(&r.from, "from", 1, "begin at `SEQUENCE`: of the session, or without --session of the stream")
	cmd.Flags().BoolVar(&r.follow, "follow", false, "go on after the head")
	cmd.Flags().BoolVar(&r.asJSON, "json", false, "one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.config()
		if err != nil {
			return err
		}
		return r.run(cmd.Context(), c, io.out)
	}
	return cmd
}

func (r reading) run(ctx context.Context, c config, out io.Writer) error {
	where, err := c.visit(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer where.close()
	var options []eventlog.ReadOption
	from := r.from
	if r.session != "" {
		options, from = append(options, eventlog.OnlySession(r.session)), 1
	}
	printed := 0
	show := func(rec event.Record) error {
		shown, err := r.show(out, rec)
		if shown {
			printed++
		}
		return err
	}
	if r.follow {
		err := where.log.Follow(ctx, from, show, options...)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	for rec, err := range where.log.ReadAll(ctx, from, 0, options...) {
		if err == nil {
			err = show(rec)
		}
		if err != nil {
			return err
		}
	}
	if printed == 0 && r.session != "" {
		return notHeld("session %q has no events from sequence %d on", r.session, r.from)
	}
	return nil
}

func (r reading) show(out io.Writer, rec event.Record) (shown bool, err error) {
	e, err := event.Decode(rec.Data)
	if err != nil && !errors.Is(err, event.ErrMalformed) {
		return false, err
	}
	if r.session != "" && err == nil && uint64(e.Sequence) < r.from {
		return false, nil
	}
	switch {
	case r.asJSON:
		return true, replay.WriteJSONL(out, rec)
	case err != nil:
		_, err = fmt.Fprintf(out, "%6d  not an event: %v\n", rec.StreamSeq, err)
		return true, err
	}
	_, err = io.WriteString(out, r.row(rec, e))
	return true, err
}

// row is an event on one line for a person.
func (r reading) row(rec event.Record, e event.Event) string {
	who := ""
	if r.session == "" {
		who = fmt.Sprintf("  %-12s", e.SessionID)
	}
	return fmt.Sprintf("%6d%s  %s  %4d  epoch %d  %-24s  %s\n",
		rec.StreamSeq, who, e.Time.Format("15:04:05.000"), e.Sequence, e.Epoch, e.Type, fields(e, 100))
}

// envelope are the fields that a row does not repeat.
var envelope = map[string]bool{"version": true, "id": true, "type": true, "session_id": true, "sequence": true,
	"epoch": true, "time": true, "prev": true, "cause": true}

// fields are the event's own fields in their order, long values cut; empty
// ones are left out.
func fields(e event.Event, most int) string {
	var parts []string
	d := jsontext.NewDecoder(strings.NewReader(string(e.Stored())))
	if _, err := d.ReadToken(); err != nil {
		return ""
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			break
		}
		switch text := plain(v); {
		case envelope[key], text == "", text == "[]", text == "false", text == "null":
		default:
			parts = append(parts, key+"="+cut(text, most))
		}
	}
	return strings.Join(parts, " ")
}

// plain is a JSON value as a person writes it: a string of one word without
// its quotes.
func plain(v jsontext.Value) string {
	var s string
	if v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
		return v.String()
	}
	if s == "" || !strings.ContainsAny(s, " \t\n\"=") {
		return s
	}
	return v.String()
}

// cut shortens a text to a number of characters.
func cut(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}
