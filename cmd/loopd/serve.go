package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/provider/protocols"
	"github.com/loopd/loopd/internal/runner"
	"github.com/loopd/loopd/internal/tool/delegate"
	"github.com/loopd/loopd/internal/tool/nats"
	"github.com/loopd/loopd/internal/tool/toolbox"
	"github.com/loopd/loopd/loop"
	"github.com/loopd/loopd/schemas"
)

const serveHelp = `Serve owns the sessions of a log: it takes inputs up, asks the model, and appends
what happened. It runs its own NATS server on a data directory, or uses an
external one (--nats). It writes.

The configuration file (--config) is YAML with the same settings:

  data: ./loopd-data          # or nats: {url, creds, tls_ca, tls_cert, tls_key, replicas}
  listen: 127.0.0.1:4222
  durability: interval        # an ack means: written, synced within 100 ms; barrier and always: synced
  max_store: 10GiB
  user, password_env, prefix, owner, grace, log_level
  provider:
    kind: chat                # responses, anthropic, gemini, ollama, bailing
    base_url, model, api_key_env, extra: {temperature: 0.2}
    headers: {X-Title: loopd} # not bailing
    profile                   # chat, responses, bailing: kind of server
    store                     # chat, responses
    budget_field, continuation, done_optional   # chat, bailing: see the profiles
    transport: http           # responses: or websocket, which native steering needs
    background                # responses, with store over http
    max_tokens: 4096, prefill: yes   # anthropic
    bearer                    # gemini: the key is an access token
    service_id, conversation  # bailing, service_id instead of model
  system: You answer the user.
  steering: request_boundary
  continuation: {max_segments: 8, no_progress: 2, max_tokens: 0, max_cost: 0, max_elapsed: 0s, expires_at}
  output_budget: 0
  context: {tokens: 0, share: 0.8}
  tools:                      # each is run by one of nats, mcp, session
    lookup: {nats: true, effect: read, description: Looks up., parameters: {type: object}}
    charge: {nats: true, effect: write, approval: required, remote: charge.v2}
    search: {mcp: files, trust_hints: true}      # or background: true
    research: {session: true}                    # a session of its own, in the background
  mcp_servers:
    files: {command: [files-server, --ro], env: {MODE: ro}, pass_env: [TOKEN], dir, import: {only: [read], prefix: f_}}
    web: {url: https://example.com/mcp, headers, header_env: {Authorization: WEB_AUTH}, connect_timeout: 30s}
  limits: {pending: 128, text: 16000}
  timeouts: {steer: 30s, operation: 2m, inspect: 30s, tool: 10m}

SIGTERM or SIGINT ends it in order: no new operation begins, those that run may
end within --grace; the next start goes on where it stopped. A second signal
ends it at once.`

func serveCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve --model NAME", Short: "Run the daemon: own the sessions of a log (writes)", Long: serveHelp,
		Args: usage(cobra.NoArgs),
		Example: `  loopd serve --model gpt-5-mini --store
  loopd serve --provider anthropic --model claude-sonnet-4-5
  loopd serve --provider ollama --model llama3.2
  loopd serve --provider responses --transport websocket --steering native --model gpt-6
  loopd serve --config loopd.yaml`,
	}
	f := addFlags(cmd, connection, serving)
	tied := cmd.Flags().Bool("until-stdin-ends", false, "end at once when standard input does")
	if err := cmd.Flags().MarkHidden("until-stdin-ends"); err != nil {
		panic(err)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.config()
		if err != nil {
			return err
		}
		d := &daemon{config: c, io: io, log: c.logger(io), atOnce: make(chan struct{})}
		if *tied {
			go d.endWith(io.in)
		}
		done := make(chan struct{})
		defer close(done)
		go d.secondSignal(done)
		return d.serve(cmd.Context())
	}
	return cmd
}

// daemon is one run of serve.
type daemon struct {
	config config
	io     stdio
	log    *slog.Logger
	atOnce chan struct{} // closed when it must end without waiting
	once   sync.Once     // closes it
}

// serve runs until ctx ends.
func (d *daemon) serve(ctx context.Context) error {
	p, err := protocols.Open(d.config.Provider, protocols.Use{
		Native: d.config.Steering == event.SteeringModeNative, Quiet: time.Duration(d.config.Timeouts.Operation), Getenv: os.Getenv,
	})
	if err != nil {
		return err
	}
	settings, err := d.config.loop()
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if settings.Steering == event.SteeringModeNative && !p.Service().Native {
		return fmt.Errorf("config: steering native: provider %s cannot steer while it answers; set steering to request_boundary", p.Service().ID)
	}
	box, err := toolbox.New(toolbox.Config{Tools: d.config.Tools, Servers: d.config.MCPServers, LookupEnv: os.LookupEnv, Logger: d.log})
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	where, err := d.config.own(ctx, d.log)
	if err != nil {
		return err
	}
	defer where.close()
	defer box.Close()
	if settings.Tools, err = d.openTools(ctx, box, where); err != nil {
		return err
	}
	if host, _, _ := d.config.address(); where.dir != "" && d.config.User == "" && !loopback(host) {
		d.log.Warn("the server listens beyond this machine and asks for no password; set user and password_env", "listen", d.config.Listen)
	}
	if where.dir != "" {
		n := note{URL: where.url, Durability: d.config.Durability, Process: os.Getpid(), Started: time.Now().UTC()}
		if err := n.write(where.dir); err != nil {
			return err
		}
		defer func() {
			if err := removeNote(where.dir); err != nil {
				d.log.Warn("clean up", "err", err)
			}
		}()
	}
	return d.run(ctx, where, p, box, settings)
}

// openTools connects what runs tools to the log.
func (d *daemon) openTools(ctx context.Context, box *toolbox.Box, where *place) (map[string]loop.Tool, error) {
	overNATS, err := nats.New(where.log.Conn(), nats.Config{Prefix: d.config.Prefix, Logger: d.log})
	if err != nil {
		return nil, err
	}
	sessions, err := delegate.New(children{host.New(where.log)}, delegate.Config{Logger: d.log})
	if err != nil {
		return nil, err
	}
	return box.Open(ctx, overNATS, sessions)
}

func (d *daemon) run(ctx context.Context, where *place, p runner.Provider, box *toolbox.Box, settings loop.Config) error {
	set, err := schemas.Load()
	if err != nil {
		return err
	}
	held := &claims{}
	r, err := runner.New(runner.Config{
		Owner: d.config.Owner, Loop: settings, Log: where.log, Provider: p, Tools: box, Logger: d.log, Validate: set.Input,
		Writer: held.writer(where.log),
	})
	if err != nil {
		return err
	}
	answering, silent := context.WithCancel(context.WithoutCancel(ctx))
	defer silent()
	if err := (api{where.log, r, p.Service().ID, held}).serve(answering); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(context.WithoutCancel(ctx), true) }()
	d.announce(where, p.Service())
	select {
	case err := <-ended:
		return err
	case <-d.atOnce:
		r.Kill()
		return <-ended
	case <-ctx.Done():
	}
	d.io.say("loopd: stopping; running operations have %s to end, a second signal ends them now", d.config.Grace)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(d.config.Grace))
	defer cancel()
	go func() {
		select {
		case <-d.atOnce:
			r.Kill()
		case <-grace.Done():
		}
	}()
	if err := r.Close(grace); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	d.io.say("loopd: stopped")
	return nil
}

// loopback reports whether only this machine can reach a host.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (d *daemon) announce(where *place, s loop.Service) {
	data := "data at that server"
	if where.dir != "" {
		data = fmt.Sprintf("data in %s, durability %s", where.dir, d.config.Durability)
	}
	d.io.say("loopd: serving on %s, %s, asking %s", where.url, data, s.ID)
}

// secondSignal ends the daemon at once at the second of the signals that end
// it in order; the first one ended its context.
func (d *daemon) secondSignal(done <-chan struct{}) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	for range 2 {
		select {
		case <-signals:
		case <-done:
			return
		}
	}
	d.endAtOnce()
}

// endWith ends the daemon at once when its standard input ends: whoever started
// it is gone.
func (d *daemon) endWith(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	d.endAtOnce()
}

func (d *daemon) endAtOnce() { d.once.Do(func() { close(d.atOnce) }) }
