package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopd/loopd/projections"
	"github.com/loopd/loopd/projections/view"
)

// Who serves is a NATS micro service named projector, with an endpoint for
// each view. Projectors of one log share <prefix>.api.projector.<view>; each
// one alone answers on <prefix>.api.projector-<id>.<endpoint>, status and
// checkpoint included.
const serviceName = "projector"

// maxServing bounds the queries of one endpoint that are answered at a time.
const maxServing = 32

// instance is what a projector leaves in the directory that it serves.
type instance struct {
	ID      string    `json:"id"`
	Process int       `json:"process"`
	Started time.Time `json:"started"`
}

const instanceFile = "serve.json"

// copyRequest asks for a copy of the served store.
type copyRequest struct {
	AtLeast uint64 `json:"at_least"`
	WaitMS  int64  `json:"wait_ms"`
}

type copyReply struct {
	Dir    string `json:"dir"` // whoever asked removes it
	Offset uint64 `json:"offset"`
}

// serve begins to answer queries, until stop.
func (k *keeper) serve(ctx context.Context) (stop func(), err error) {
	service, err := micro.AddService(k.src.log.Conn(), micro.Config{
		Name: serviceName, Version: "1.0.0", Description: "views of the log under prefix " + k.src.prefix,
		Metadata: map[string]string{"stream": k.src.stream.Name},
	})
	if err != nil {
		return nil, fmt.Errorf("serve queries: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop = func() { cancel(); _ = service.Stop(); _ = os.Remove(filepath.Join(k.builds.Dir(), instanceFile)) }
	id := service.Info().ID
	shared, alone := k.src.prefix+".api.projector", k.src.prefix+".api.projector-"+id
	var failed []error
	add := func(base, name string, answer func(context.Context, []byte) (any, error)) {
		failed = append(failed, service.AddEndpoint(name, handler(ctx, answer), micro.WithEndpointSubject(base+"."+name)))
	}
	for _, name := range view.Names() {
		query := func(ctx context.Context, request []byte) (any, error) { return k.query(ctx, name, request) }
		add(shared, string(name), query)
		add(alone, string(name), query)
	}
	add(alone, "status", func(ctx context.Context, _ []byte) (any, error) { return k.status(ctx) })
	add(alone, "copy", k.copy)
	b, err := json.Marshal(instance{id, os.Getpid(), time.Now().UTC()})
	failed = append(failed, err, os.WriteFile(filepath.Join(k.builds.Dir(), instanceFile), append(b, '\n'), 0o644))
	if err := errors.Join(append(failed, k.src.log.Conn().FlushTimeout(10*time.Second))...); err != nil {
		stop()
		return nil, fmt.Errorf("serve queries: %w", err)
	}
	return stop, nil
}

// handler answers requests side by side, at most maxServing; more wait in the
// subscription.
func handler(ctx context.Context, answer func(context.Context, []byte) (any, error)) micro.Handler {
	free := make(chan struct{}, maxServing)
	return micro.HandlerFunc(func(r micro.Request) {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		go func() {
			defer func() { <-free }()
			reply, err := answer(ctx, r.Data())
			var b []byte
			if err == nil {
				b, err = json.Marshal(reply, json.Deterministic(true))
			}
			if err == nil {
				err = r.Respond(b)
			}
			if err != nil {
				_ = r.Error("400", strings.Join(strings.Fields(err.Error()), " "), nil)
			}
		}()
	})
}

func (k *keeper) query(ctx context.Context, name view.Name, request []byte) (any, error) {
	var q query
	if len(request) > 0 {
		if err := json.Unmarshal(request, &q, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("the query is no JSON of session, id, at_least, wait_ms, limit: %w", err)
		}
	}
	q.View = name
	q, err := q.withDefaults()
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, time.Duration(q.WaitMS)*time.Millisecond)
	defer cancel()
	if err := k.await(wait, q.AtLeast); err != nil {
		return nil, err
	}
	var a answer
	err = k.use(func(store *projections.Store, build projections.Build) (err error) {
		a, err = ask(ctx, store, q)
		a.Build = build.ID
		return err
	})
	return a, err
}

// copy makes a copy of the served store, for a rebuild to compare with.
func (k *keeper) copy(ctx context.Context, request []byte) (any, error) {
	var r copyRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, min(time.Duration(r.WaitMS)*time.Millisecond, maxWait))
	defer cancel()
	if err := k.await(wait, r.AtLeast); err != nil {
		return nil, err
	}
	var reply copyReply
	err := k.use(func(store *projections.Store, _ projections.Build) (err error) {
		reply.Dir, reply.Offset, err = copyStore(store, k.builds.Dir())
		return err
	})
	return reply, err
}

// copyStore puts a checkpoint of a store into a new directory.
func copyStore(store *projections.Store, under string) (dir string, offset uint64, err error) {
	parent, err := os.MkdirTemp(under, "copy-")
	if err != nil {
		return "", 0, err
	}
	dir = filepath.Join(parent, "db")
	if offset, err = store.Checkpoint(dir); err != nil {
		return "", 0, errors.Join(err, os.RemoveAll(parent))
	}
	return dir, offset, nil
}

// copyOfServed is a copy of the served store that may be folded on, from who
// serves it, or from the directory where nobody does; done removes it.
func (v *views) copyOfServed(ctx context.Context, atLeast uint64) (copied *projections.Store, done func(), err error) {
	reply, err := v.askForCopy(ctx, atLeast)
	if errors.Is(err, errNobodyServes) {
		reply.Dir, reply.Offset, err = v.copyHere()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("copy of the served build: %w", err)
	}
	return v.openCopy(reply.Dir)
}

// openCopy opens a copy, to be folded on; done removes it.
func (v *views) openCopy(dir string) (copied *projections.Store, done func(), err error) {
	remove := func() { _ = os.RemoveAll(filepath.Dir(dir)) }
	copied, err = projections.Open(dir, projections.Config{Stream: v.src.stream, NoWAL: true, Logger: v.env.logger()})
	if err != nil {
		remove()
		return nil, nil, err
	}
	return copied, func() { _ = copied.Close(); remove() }, nil
}

func (v *views) askForCopy(ctx context.Context, atLeast uint64) (reply copyReply, err error) {
	request, err := json.Marshal(copyRequest{atLeast, maxWait.Milliseconds()})
	if err != nil {
		return reply, err
	}
	b, err := v.callInstance(ctx, "copy", request)
	if err == nil {
		err = json.Unmarshal(b, &reply)
	}
	return reply, err
}

func (v *views) copyHere() (dir string, offset uint64, err error) {
	build, err := v.builds.Current()
	if err != nil {
		return "", 0, err
	}
	store, err := v.builds.Open(build, v.src.stream)
	if err != nil {
		return "", 0, err
	}
	dir, offset, err = copyStore(store, v.builds.Dir())
	return dir, offset, errors.Join(err, store.Close())
}

// errNobodyServes says that no projector run serves the directory, or the log.
var errNobodyServes = errors.New("no projector runs on it; start projector run")

// callInstance asks the projector that serves this very directory.
func (v *views) callInstance(ctx context.Context, endpoint string, request []byte) ([]byte, error) {
	var who instance
	b, err := os.ReadFile(filepath.Join(v.builds.Dir(), instanceFile))
	if err == nil {
		err = json.Unmarshal(b, &who)
	}
	if err != nil {
		return nil, errNobodyServes
	}
	return v.src.call(ctx, "projector-"+who.ID+"."+endpoint, request)
}

// call asks an endpoint of a projector, and waits a little longer than that
// one may.
func (s *source) call(ctx context.Context, endpoint string, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait+10*time.Second)
	defer cancel()
	reply, err := s.log.Conn().RequestWithContext(ctx, s.prefix+".api."+endpoint, request)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errNobodyServes
	case err != nil:
		return nil, fmt.Errorf("ask %s: %w", endpoint, err)
	case reply.Header.Get(micro.ErrorHeader) != "":
		return nil, fmt.Errorf("%s: %s", endpoint, reply.Header.Get(micro.ErrorHeader))
	}
	return reply.Data, nil
}
