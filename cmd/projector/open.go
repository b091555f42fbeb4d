package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/projections"
)

// where is how a verb reaches a log and the store of its views: the flags that
// say it.
type where struct {
	data, nats, prefix               string
	user, passwordEnv, creds         string
	tlsCA, tlsCert, tlsKey, storeDir string
}

// logFlags gives a verb the flags of a log.
func logFlags(cmd *cobra.Command) *where {
	w := &where{}
	f := cmd.Flags()
	f.StringVar(&w.data, "data", "", "data directory `DIR` of a loopd, running or not")
	f.StringVar(&w.nats, "nats", "", "NATS server at `URL`, instead of a data directory")
	f.StringVar(&w.prefix, "prefix", "loop", "first `TOKEN` of the subjects")
	f.StringVar(&w.user, "user", "", "user `NAME` at the server")
	f.StringVar(&w.passwordEnv, "password-env", "", "environment variable `VAR` that holds the user's password")
	f.StringVar(&w.creds, "creds", "", "NATS credentials `FILE`, with --nats")
	f.StringVar(&w.tlsCA, "tls-ca", "", "authorities to trust, a PEM `FILE`, with --nats")
	f.StringVar(&w.tlsCert, "tls-cert", "", "our certificate, a PEM `FILE`, with --nats")
	f.StringVar(&w.tlsKey, "tls-key", "", "its key, a PEM `FILE`, with --nats")
	return w
}

// storeFlags gives a verb the flags of a log and of the store of its views.
func storeFlags(cmd *cobra.Command) *where {
	w := logFlags(cmd)
	cmd.Flags().StringVar(&w.storeDir, "store", "", "directory `DIR` of the views (default <data>/projections); each projector of a log has its own")
	return w
}

// source is an open log.
type source struct {
	log    *eventlog.Log
	stream projections.Stream // which stream of events it is
	events jetstream.Stream   // the same, for what its state tells
	prefix string
	server *natsembed.Server // nil: the server is another process
	note   string            // the note that we left for others, "" for none
}

// open opens the log for reading. Where only a data directory is named, it
// asks whoever runs on it; nobody = it runs a server on the directory until
// close. It changes no stream.
func (w *where) open(ctx context.Context, e env) (*source, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	s := &source{prefix: w.prefix}
	c := eventlog.Config{
		URL: w.nats, CredsFile: w.creds, User: w.user, Password: w.password(),
		TLSCA: w.tlsCA, TLSCert: w.tlsCert, TLSKey: w.tlsKey,
		Prefix: w.prefix, Existing: true, Logger: e.logger(),
	}
	if w.nats == "" {
		if err := s.reach(w, e); err != nil {
			return nil, err
		}
		if c.URL = s.note; s.server != nil {
			c.URL, c.InProcess = s.server.ClientURL(), s.server
		}
	}
	var err error
	if s.log, err = eventlog.Open(ctx, c); err == nil {
		err = s.identify(ctx)
	}
	if err != nil {
		s.close()
		if errors.Is(err, eventlog.ErrNoStream) {
			return nil, fmt.Errorf("no log under prefix %s: nothing was ever logged there; start loopd serve once: %w", w.prefix, err)
		}
		return nil, err
	}
	return s, nil
}

func (w *where) check() error {
	switch {
	case w.nats == "" && w.data == "":
		return errors.New("no log is named; say where it is with --data DIR or --nats URL")
	case w.nats != "" && w.data != "":
		return errors.New("both a data directory (--data) and a server (--nats) are given; keep one")
	case w.nats == "" && w.creds+w.tlsCA+w.tlsCert+w.tlsKey != "":
		return errors.New("--creds and the TLS files belong to --nats URL; name the server, or leave them out")
	case (w.user == "") != (w.passwordEnv == ""):
		return errors.New("--user and --password-env go together; set both or none")
	case w.user != "" && w.password() == "":
		return fmt.Errorf("the environment variable %s (--password-env) is empty; set it to the password of %s", w.passwordEnv, w.user)
	}
	return nil
}

func (w *where) password() string {
	if w.passwordEnv == "" {
		return ""
	}
	return os.Getenv(w.passwordEnv)
}

// store is the directory of the views.
func (w *where) store() (string, error) {
	switch {
	case w.storeDir != "":
		return w.storeDir, nil
	case w.data != "":
		return filepath.Join(w.data, "projections"), nil
	}
	return "", errors.New("no store is named; with --nats URL say where the views lie with --store DIR")
}

// note is what a process that runs a server leaves in the data directory, for
// who finds it in use: loopd reads and writes the same.
type note struct {
	URL        string    `json:"url"`
	Durability string    `json:"durability"`
	Process    int       `json:"process"`
	Started    time.Time `json:"started"`
}

const noteFile = "daemon.json"

// reach finds the server of a data directory, or runs it; s.note is then where
// it listens.
func (s *source) reach(w *where, e env) error {
	if info, err := os.Stat(w.data); err != nil || !info.IsDir() {
		return fmt.Errorf("no data directory %s; loopd serve --data %s makes one", w.data, w.data)
	}
	path := filepath.Join(w.data, noteFile)
	server, err := natsembed.Start(natsembed.Config{Dir: w.data, User: w.user, Password: w.password(), Logger: e.logger()})
	var locked *natsembed.LockedError
	switch {
	case err == nil:
		s.server, s.note = server, path
		n := note{URL: server.ClientURL(), Durability: "interval", Process: os.Getpid(), Started: time.Now().UTC()}
		b, err := json.Marshal(n)
		if err == nil {
			err = os.WriteFile(path, append(b, '\n'), 0o600)
		}
		if err != nil {
			s.close()
			return fmt.Errorf("note in the data directory: %w", err)
		}
		return nil
	case !errors.As(err, &locked):
		return err
	}
	var n note
	b, noteErr := os.ReadFile(path)
	if noteErr == nil {
		noteErr = json.Unmarshal(b, &n)
	}
	if noteErr != nil {
		return fmt.Errorf("%w (or name its address with --nats URL)", err)
	}
	s.note = n.URL
	return nil
}

// identify asks which stream it is: one that was deleted and made again has
// another time.
func (s *source) identify(ctx context.Context) error {
	js, err := jetstream.New(s.log.Conn())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	name := strings.ToUpper(strings.ReplaceAll(s.prefix, ".", "_")) + "_EVENTS"
	if s.events, err = js.Stream(ctx, name); err != nil {
		return fmt.Errorf("look up stream %s: %w", name, err)
	}
	s.stream = projections.Stream{Name: name, Created: s.events.CachedInfo().Created}
	return nil
}

// own reports whether the server runs here: nobody else can write meanwhile.
func (s *source) own() bool { return s.server != nil }

func (s *source) close() {
	if s.log != nil {
		s.log.Close()
	}
	if s.server != nil {
		_ = os.Remove(s.note) // the server that it names ends with us
		s.server.Shutdown()
	}
}
