package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
)

// place is an open log and where it lies.
type place struct {
	log    *eventlog.Log
	server *natsembed.Server // nil: the server is another process
	url    string            // where hosts connect
	dir    string            // "" = not known here
	note   *note             // of the daemon that runs on dir, if it does
}

func (p *place) close() {
	if p.log != nil {
		p.log.Close()
	}
	if p.server != nil {
		p.server.Shutdown()
	}
}

// own opens the log for an owner: the embedded server on its directory, or an
// external one. Streams are made where they are missing.
func (c config) own(ctx context.Context, log *slog.Logger) (*place, error) {
	e := c.eventlog(log)
	if c.NATS.URL != "" {
		l, err := eventlog.Open(ctx, e)
		return &place{log: l, url: c.NATS.URL}, err
	}
	p, err := c.embed(log)
	if err != nil {
		return nil, err
	}
	e.InProcess, e.URL, e.Created = p.server, p.url, p.server.Sync
	if c.Durability == string(natsembed.DurabilityBarrier) {
		e.Barrier = p.server.Sync
	}
	if p.log, err = eventlog.Open(ctx, e); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// embed starts the server on the data directory.
func (c config) embed(log *slog.Logger) (*place, error) {
	host, port, err := c.address()
	if err != nil {
		return nil, err
	}
	server, err := natsembed.Start(natsembed.Config{
		Dir: c.Data, Host: host, Port: port, Durability: natsembed.Durability(c.Durability),
		MaxStore: int64(c.MaxStore), User: c.User, Password: c.password(), Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return &place{server: server, url: server.ClientURL(), dir: c.Data}, nil
}

// visit opens a log that is there, for a verb that ends soon: at the external
// server, at the daemon, or, where only its data directory is named, at
// whoever runs on it; nobody = on the directory itself. It changes no stream.
func (c config) visit(ctx context.Context, log *slog.Logger) (*place, error) {
	p, err := c.reach(log)
	if err != nil {
		return nil, err
	}
	e := c.eventlog(log)
	e.URL, e.Existing = p.url, true
	if p.server != nil {
		e.InProcess, e.Barrier = p.server, p.server.Sync
	}
	if p.log, err = eventlog.Open(ctx, e); err == nil {
		return p, nil
	}
	p.close()
	switch {
	case errors.Is(err, eventlog.ErrNoStream):
		err = &noLogError{url: p.url, prefix: c.Prefix, err: err}
	case errors.Is(err, eventlog.ErrUnavailable) && c.NATS.URL == "":
		err = fmt.Errorf("%w; start the daemon with loopd serve, or say where the log is with --nats URL or --data DIR", err)
	}
	return nil, err
}

// noLogError says that a server is there, and no log of ours on it.
type noLogError struct {
	url, prefix string
	err         error
}

func (e *noLogError) Error() string {
	return fmt.Sprintf("%s: no log under prefix %s: nothing was ever logged there; start loopd serve once", e.url, e.prefix)
}

func (e *noLogError) Unwrap() error { return e.err }

// reach finds the server of a visit.
func (c config) reach(log *slog.Logger) (*place, error) {
	switch {
	case c.NATS.URL != "":
		return &place{url: c.NATS.URL}, nil
	case !c.dataSet:
		return &place{url: "nats://" + c.Listen}, nil
	}
	if info, err := os.Stat(c.Data); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("no data directory %s; loopd serve --data %s makes one", c.Data, c.Data)
	}
	c.Listen = "127.0.0.1:0"
	p, err := c.embed(log)
	var locked *natsembed.LockedError
	switch {
	case err == nil: // whatever daemon left a note is gone
		return p, removeNote(c.Data)
	case !errors.As(err, &locked):
		return nil, err
	}
	n, noteErr := readNote(c.Data)
	if noteErr != nil {
		return nil, fmt.Errorf("%w (or name its address with --nats URL)", err)
	}
	return &place{url: n.URL, dir: c.Data, note: &n}, nil
}

func (c config) eventlog(log *slog.Logger) eventlog.Config {
	return eventlog.Config{
		URL: c.NATS.URL, CredsFile: c.NATS.Creds, User: c.User, Password: c.password(),
		TLSCA: c.NATS.TLSCA, TLSCert: c.NATS.TLSCert, TLSKey: c.NATS.TLSKey,
		Prefix: c.Prefix, Replicas: c.NATS.Replicas, Logger: log,
	}
}

func (c config) password() string {
	if c.PasswordEnv == "" {
		return ""
	}
	return os.Getenv(c.PasswordEnv)
}

// logger writes talk to standard error.
func (c config) logger(io stdio) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // check has seen it
	return slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: level}))
}

// note is what a daemon leaves in its data directory, for who finds the
// directory in use.
type note struct {
	URL        string    `json:"url"`
	Durability string    `json:"durability"`
	Process    int       `json:"process"`
	Started    time.Time `json:"started"`
}

const noteFile = "daemon.json"

func (n note) write(dir string) error {
	b, err := json.Marshal(n)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, noteFile), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note in the data directory: %w", err)
	}
	return nil
}

func removeNote(dir string) error {
	if err := os.Remove(filepath.Join(dir, noteFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note in the data directory: %w", err)
	}
	return nil
}

func readNote(dir string) (note, error) {
	var n note
	b, err := os.ReadFile(filepath.Join(dir, noteFile))
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	return n, err
}
