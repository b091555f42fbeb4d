package main

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
)

// ground is what both sides stand on: one server in the process, and for each
// side a connection without a socket and a stream on the same disk.
type ground struct {
	server *natsembed.Server
	log    *eventlog.Log
	nc     *nats.Conn
	js     jetstream.JetStream
	names  int
}

func open(ctx context.Context, dir string) (g *ground, err error) {
	g = &ground{}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if g.server, err = natsembed.Start(natsembed.Config{Dir: dir}); err != nil {
		return g, err
	}
	if g.log, err = eventlog.Open(ctx, eventlog.Config{InProcess: g.server, Created: g.server.Sync}); err != nil {
		return g, err
	}
	if g.nc, err = nats.Connect("", nats.InProcessServer(g.server)); err != nil {
		return g, err
	}
	if g.js, err = jetstream.New(g.nc); err != nil {
		return g, err
	}
	_, err = g.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "PLAIN_EVENTS", Subjects: []string{"plain.ev.*.*.*"}, Discard: jetstream.DiscardNew,
	})
	return g, err
}

func (g *ground) close() {
	if g.nc != nil {
		g.nc.Close()
	}
	if g.log != nil {
		g.log.Close()
	}
	if g.server != nil {
		g.server.Shutdown()
	}
}

// name is a session id that no round has used.
func (g *ground) name() string {
	g.names++
	return fmt.Sprintf("01KDVDEM01%016d", g.names)
}

// side makes one append of its session after another.
type side interface {
	append(ctx context.Context, st step) error
}

// fenced is an owner's append.
type fenced struct {
	*session
	writer *eventlog.Writer
}

func (g *ground) fenced(id string) side {
	return &fenced{session: newSession(id), writer: g.log.Writer(id, 0)}
}

func (f *fenced) append(ctx context.Context, st step) error {
	e, err := f.make(st)
	if err != nil {
		return err
	}
	if _, err := f.writer.Append(ctx, e); err != nil {
		return err
	}
	return f.fold(e)
}

// plain is a publish that waits for its acknowledgement, and nothing else.
type plain struct {
	js     jetstream.JetStream
	prefix string
}

func (g *ground) plain(id string) side { return &plain{js: g.js, prefix: "plain.ev." + id + "."} }

func (p *plain) append(ctx context.Context, st step) error {
	_, err := p.js.Publish(ctx, p.prefix+string(st.stored.Type), st.stored.Stored())
	return err
}

// meanBytes is the mean size of the events of a script.
func meanBytes(steps []step) int {
	sum := 0
	for _, st := range steps {
		sum += len(st.stored.Stored())
	}
	return sum / len(steps)
}
