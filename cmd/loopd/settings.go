package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setting is a flag that sets a part of the configuration. Its key in the file
// is what stands in the configuration's yaml names.
type setting struct {
	flag, value, help string
	set               func(c *config, text string) error
}

// connection is how any verb reaches the log.
var connection = []setting{
	{"data", "DIR", "data directory of the embedded server; a verb that finds a daemon running on it asks that one",
		func(c *config, s string) error { c.Data, c.dataSet = s, true; return nil }},
	{"nats", "URL", "external NATS server, instead of a data directory", text(func(c *config) *string { return &c.NATS.URL })},
	{"prefix", "TOKEN", "first token of the subjects (default loop)", text(func(c *config) *string { return &c.Prefix })},
	{"user", "NAME", "user at the server", text(func(c *config) *string { return &c.User })},
	{"password-env", "VAR", "environment variable that holds the user's password", text(func(c *config) *string { return &c.PasswordEnv })},
	{"creds", "FILE", "NATS credentials file, with --nats", text(func(c *config) *string { return &c.NATS.Creds })},
	{"tls-ca", "FILE", "authorities to trust, with --nats", text(func(c *config) *string { return &c.NATS.TLSCA })},
	{"tls-cert", "FILE", "our certificate, with --nats", text(func(c *config) *string { return &c.NATS.TLSCert })},
	{"tls-key", "FILE", "its key, with --nats", text(func(c *config) *string { return &c.NATS.TLSKey })},
}

// serving is what a daemon runs by, beyond the connection.
var serving = []setting{
	{"listen", "HOST:PORT", "where the embedded server listens (default " + defaultListen + ", port 0 = any)", text(func(c *config) *string { return &c.Listen })},
	{"durability", "MODE", "what an acknowledgement means: interval (default), barrier, always", text(func(c *config) *string { return &c.Durability })},
	{"max-store", "SIZE", "bound of the bytes on disk, such as 10GiB (default below the free space)", func(c *config, s string) error { return c.MaxStore.set(s) }},
	{"replicas", "N", "copies of each stream, with --nats: 1, 3 or 5", number(func(c *config) *int { return &c.NATS.Replicas })},

	{"provider", "KIND", "wire protocol of the model server: chat (default), responses, anthropic, gemini, ollama, bailing", text(func(c *config) *string { return &c.Provider.Kind })},
	{"base-url", "URL", "model server (default the protocol's own service; bailing has none)", text(func(c *config) *string { return &c.Provider.BaseURL })},
	{"model", "NAME", "model, as the server knows it", text(func(c *config) *string { return &c.Provider.Model })},
	{"service-id", "ID", "bailing: which of the hub's services answers, instead of a model", text(func(c *config) *string { return &c.Provider.ServiceID })},
	{"profile", "NAME", "kind of server: openai (default without --base-url), generic (default with it), azure, deepseek; with chat and bailing also dashscope, moonshot, openrouter, llamacpp, vllm, ollama-v1, lmstudio",
		text(func(c *config) *string { return &c.Provider.Profile })},
	{"api-key-env", "VAR", "environment variable that holds the API key (default OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, OLLAMA_API_KEY, BAILING_API_KEY)", text(func(c *config) *string { return &c.Provider.APIKeyEnv })},
	{"store", "BOOL", "chat, responses: have OpenAI keep answers, so that one lost in a crash is found again (true, false)", truth(func(c *config) *bool { return &c.Provider.Store })},
	{"background", "BOOL", "responses: have answers go on when their stream breaks off; needs --store (true, false)", truth(func(c *config) *bool { return &c.Provider.Background })},
	{"transport", "NAME", "responses: http (default) or websocket; native steering needs websocket", text(func(c *config) *string { return &c.Provider.Transport })},
	{"answer-tokens", "N", "anthropic: bound of an answer without --output-budget; the protocol demands one (default 4096)", whole(func(c *config) *int64 { return &c.Provider.MaxTokens })},
	{"system", "TEXT", "the system message", text(func(c *config) *string { return &c.System })},

	{"steering", "MODE", "request_boundary (default) or native", text(func(c *config) *string { return &c.Steering })},
	{"output-budget", "TOKENS", "bound of one operation's output (default the provider's)", whole(func(c *config) *int64 { return &c.OutputBudget })},
	{"context-tokens", "N", "the model's context window; near it old turns are summarized (default 0 = never)", whole(func(c *config) *int64 { return &c.Context.Tokens })},
	{"context-share", "SHARE", "of the context window, from which on old turns are summarized (default 0.8)", share(func(c *config) *float64 { return &c.Context.Share })},
	{"max-segments", "N", "operations of one continuation chain (default 8, 0 = no bound)", number(func(c *config) *int { return &c.Continuation.MaxSegments })},
	{"no-progress", "N", "consecutive segments that may add nothing (default 2, 0 = no bound)", number(func(c *config) *int { return &c.Continuation.NoProgress })},
	{"max-tokens", "N", "tokens of one task (default 0 = no bound)", whole(func(c *config) *int64 { return &c.Continuation.MaxTokens })},
	{"max-elapsed", "DURATION", "time of one task (default 0s = no bound)", span(func(c *config) *duration { return &c.Continuation.MaxElapsed })},
	{"pending-limit", "N", "content inputs that may wait in a session (default 128)", number(func(c *config) *int { return &c.Limits.Pending })},
	{"text-limit", "N", "characters of one input (default 16000)", number(func(c *config) *int { return &c.Limits.Text })},
	{"steer-timeout", "DURATION", "wait for a provider's answer to native steering (default 30s)", span(func(c *config) *duration { return &c.Timeouts.Steer })},
	{"operation-timeout", "DURATION", "longest silence of a model server (default 2m)", span(func(c *config) *duration { return &c.Timeouts.Operation })},
	{"inspect-timeout", "DURATION", "longest look-up of an original (default 30s)", span(func(c *config) *duration { return &c.Timeouts.Inspect })},
	{"tool-timeout", "DURATION", "wait for a tool's receipt; background jobs have no bound (default 10m)", span(func(c *config) *duration { return &c.Timeouts.Tool })},

	{"owner", "NAME", "name of this process in the log (default loopd-HOST-PID)", text(func(c *config) *string { return &c.Owner })},
	{"grace", "DURATION", "how long running operations may end at a shutdown (default 30s)", span(func(c *config) *duration { return &c.Grace })},
	{"log-level", "LEVEL", "debug, info (default), warn, error", text(func(c *config) *string { return &c.LogLevel })},
}

func text(field func(*config) *string) func(*config, string) error {
	return func(c *config, s string) error { *field(c) = s; return nil }
}

func span(field func(*config) *duration) func(*config, string) error {
	return func(c *config, s string) error { return field(c).set(s) }
}

// parsed is a setting that a function reads; what says what it should be.
func parsed[T any](field func(*config) *T, parse func(string) (T, error), what string) func(*config, string) error {
	return func(c *config, s string) (err error) {
		if *field(c), err = parse(s); err != nil {
			return fmt.Errorf("%q is not %s", s, what)
		}
		return nil
	}
}

func number(field func(*config) *int) func(*config, string) error {
	return parsed(field, strconv.Atoi, "a whole number")
}

func whole(field func(*config) *int64) func(*config, string) error {
	return parsed(field, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }, "a whole number")
}

func share(field func(*config) *float64) func(*config, string) error {
	return parsed(field, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, "a number such as 0.8")
}

func truth(field func(*config) *bool) func(*config, string) error {
	return parsed(field, strconv.ParseBool, "true or false")
}

// flags are the settings that a command line gave. They are kept as text and
// laid over the file once that is read.
type flags struct {
	file  string
	given []*given
}

type given struct {
	setting
	text    string
	changed bool
}

func (g *given) String() string     { return g.text }
func (g *given) Type() string       { return g.value }
func (g *given) Set(s string) error { g.text, g.changed = s, true; return g.set(new(config), s) }

func addFlags(cmd *cobra.Command, groups ...[]setting) *flags {
	f := &flags{}
	cmd.Flags().StringVar(&f.file, "config", "", "configuration `FILE` in YAML; flags win over it")
	for _, group := range groups {
		for _, s := range group {
			g := &given{setting: s}
			f.given = append(f.given, g)
			flag := cmd.Flags().VarPF(g, s.flag, "", s.help)
			if s.value == "BOOL" {
				flag.NoOptDefVal = "true"
			}
		}
	}
	cmd.Flags().SortFlags = false
	return f
}

var _ pflag.Value = (*given)(nil)

// config is the defaults, the file over them, and the flags over it.
func (f *flags) config() (config, error) {
	c := defaultConfig()
	if f.file != "" {
		before := c.Data
		c.Data = ""
		if err := c.read(f.file); err != nil {
			return config{}, err
		}
		if c.Data == "" {
			c.Data = before
		} else {
			c.dataSet = true
		}
	}
	switch data, nats := f.changed("data"), f.changed("nats"); {
	case data && !nats:
		c.NATS = remote{Replicas: 1} // the flag wins over the file's server
	case nats && !data:
		c.dataSet = false // and here over its directory
	}
	for _, g := range f.given {
		if g.changed {
			if err := g.set(&c, g.text); err != nil {
				return config{}, fmt.Errorf("--%s: %w", g.flag, err)
			}
		}
	}
	if err := c.check(); err != nil {
		return config{}, fmt.Errorf("config: %w", err)
	}
	return c, nil
}

func (f *flags) changed(name string) bool {
	for _, g := range f.given {
		if g.flag == name {
			return g.changed
		}
	}
	return false
}
