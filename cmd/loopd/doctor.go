package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
)

const doctorHelp = `Doctor looks whether the log can be worked on: can it be reached, have its streams
the right shape, what does an acknowledgement mean, is there room left. It only
reads. Exit status 1: something of it does not hold.`

// finding is what doctor found of one thing.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Says  string `json:"says"`
}

func doctorCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look whether the log can be worked on (only reads)", Long: doctorHelp,
		Args:    usage(cobra.NoArgs),
		Example: "  loopd doctor\n  loopd doctor --data ./loopd-data --json",
	}
	f := addFlags(cmd, connection)
	asJSON := cmd.Flags().Bool("json", false, "one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.config()
		if err != nil {
			return err
		}
		d := examination{config: c}
		d.examine(cmd.Context())
		return d.tell(io.out, *asJSON)
	}
	return cmd
}

// examination is one run of doctor.
type examination struct {
	config   config
	findings []finding
}

func (d *examination) note(check string, ok bool, format string, args ...any) {
	d.findings = append(d.findings, finding{check, ok, fmt.Sprintf(format, args...)})
}

func (d *examination) tell(out io.Writer, asJSON bool) error {
	wrong := 0
	for _, f := range d.findings {
		mark := "ok  "
		if !f.OK {
			mark, wrong = "FAIL", wrong+1
		}
		line := fmt.Sprintf("%s  %-12s %s", mark, f.Check, f.Says)
		if asJSON {
			b, err := json.Marshal(f)
			if err != nil {
				return err
			}
			line = string(b)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return notHeld("doctor: %d of %d checks do not hold", wrong, len(d.findings))
	}
	return nil
}

func (d *examination) examine(ctx context.Context) {
	where, err := d.config.visit(ctx, slog.New(slog.DiscardHandler))
	var shape *eventlog.ShapeError
	switch {
	case errors.As(err, &shape), errors.Is(err, eventlog.ErrNoStream):
		d.note("server", true, "it answers")
		d.note("streams", false, "%v", err)
		return
	case err != nil:
		d.note("server", false, "%v", err)
		return
	}
	defer where.close()
	d.server(ctx, where)
	d.durability(where)
	d.space(where)
}

// server looks at the streams as the server has them.
func (d *examination) server(ctx context.Context, where *place) {
	nc, err := d.config.dial(where)
	if err != nil {
		d.note("server", false, "%v", err)
		return
	}
	defer nc.Close()
	rtt, err := nc.RTT()
	d.note("server", err == nil, "%s, NATS %s, %s away", where.url, nc.ConnectedServerVersion(), rtt.Round(10*time.Microsecond))
	js, err := jetstream.New(nc)
	if err != nil {
		d.note("streams", false, "%v", err)
		return
	}
	d.note("streams", true, "all three are there and of the right shape")
	streams := js.ListStreams(ctx, jetstream.WithStreamListSubject(d.config.Prefix+".>"))
	for info := range streams.Info() {
		d.note(info.Config.Name, true, "%d messages, %s, last sequence %d, %d replica(s), %s", info.State.Msgs,
			size(info.State.Bytes), info.State.LastSeq, info.Config.Replicas, info.Config.Storage)
	}
	if err := streams.Err(); err != nil {
		d.note("streams", false, "%v", err)
	}
	d.note("contents", true, "not read: projector audit reads every event and finds what is damaged")
	account, err := js.AccountInfo(ctx)
	switch {
	case err != nil:
		d.note("store", false, "%v", err)
	case account.Limits.MaxStore > 0:
		left := account.Limits.MaxStore - int64(account.Store)
		d.note("store", left > lowWater, "%s used, %s left of the account's limit", size(account.Store), size(left))
	default:
		d.note("store", true, "%s used, no limit of the account", size(account.Store))
	}
}

// dial is a connection of our own to the server of a place.
func (c config) dial(where *place) (*nats.Conn, error) {
	options := []nats.Option{nats.Name("loopd doctor")}
	if where.server != nil {
		options = append(options, nats.InProcessServer(where.server))
	}
	if c.User != "" {
		options = append(options, nats.UserInfo(c.User, c.password()))
	}
	if c.NATS.Creds != "" {
		options = append(options, nats.UserCredentials(c.NATS.Creds))
	}
	if c.NATS.TLSCA != "" {
		options = append(options, nats.RootCAs(c.NATS.TLSCA))
	}
	if c.NATS.TLSCert != "" {
		options = append(options, nats.ClientCert(c.NATS.TLSCert, c.NATS.TLSKey))
	}
	return nats.Connect(where.url, options...)
}

// meanings are what an acknowledgement means.
var meanings = map[natsembed.Durability]string{
	natsembed.DurabilityInterval: "an ack means: written, synced to disk within 100 ms; a kill loses nothing, a power cut the last tens of events",
	natsembed.DurabilityBarrier:  "an ack means: written and synced to disk, one sync for all that wait; neither a kill nor a power cut loses anything",
	natsembed.DurabilityAlways:   "an ack means: written and synced to disk, each write by itself; neither a kill nor a power cut loses anything",
}

func (d *examination) durability(where *place) {
	switch {
	case where.note != nil:
		d.note("durability", true, "%s (the daemon, process %d, says): %s", where.note.Durability, where.note.Process, meanings[natsembed.Durability(where.note.Durability)])
	case where.server != nil:
		d.note("durability", true, "no daemon runs on %s; what an ack means is a setting of the next one (--durability)", where.dir)
	default:
		d.note("durability", true, "what an ack means is a setting of that server (sync_interval), and no client may ask; beside the daemon's data, ask with --data DIR")
	}
}

// lowWater is the room below which doctor says that something is wrong.
const lowWater = 256 << 20

// space looks at the disk of a directory that is known here.
func (d *examination) space(where *place) {
	if where.dir == "" {
		return
	}
	var s unix.Statfs_t
	if err := unix.Statfs(where.dir, &s); err != nil {
		d.note("disk", false, "%s: %v", where.dir, err)
		return
	}
	free := int64(s.Bavail) * int64(s.Bsize)
	says := fmt.Sprintf("%s free below %s", size(free), where.dir)
	if free <= lowWater {
		says += "; a full disk stops the log: make room"
	}
	d.note("disk", free > lowWater, "%s", says)
}
