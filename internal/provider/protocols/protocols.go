// Package protocols knows every wire protocol that sessions can ask over: the
// settings of each, where its key is looked for, and the adapter that speaks it.
//
// A setting that a protocol does not have is refused, never ignored. It asks
// nothing itself.
package protocols

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/anthropic"
	"github.com/loopd/loopd/internal/provider/bailing"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/gemini"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/internal/provider/ollama"
	"github.com/loopd/loopd/internal/provider/responses"
	"github.com/loopd/loopd/loop"
)

// Default is the protocol of who names none.
const Default = "chat"

const openAI = "https://api.openai.com/v1"

// Settings say whom to ask. The yaml names are those of the configuration file.
// Not every protocol has each of them.
type Settings struct {
	Kind      string `yaml:"kind"`     // wire protocol: one of Kinds
	BaseURL   string `yaml:"base_url"` // "" = the protocol's own service
	Model     string `yaml:"model"`
	ServiceID string `yaml:"service_id"`  // bailing: which of the hub's services, instead of a model
	Profile   string `yaml:"profile"`     // kind of server
	APIKeyEnv string `yaml:"api_key_env"` // environment variable that holds the key; "" = the protocol's own

	Store        bool   `yaml:"store"`         // have answers kept, so that a lost one can be looked up
	Background   bool   `yaml:"background"`    // have answers go on when their stream breaks off
	Transport    string `yaml:"transport"`     // http or websocket
	MaxTokens    int64  `yaml:"max_tokens"`    // of an answer, where the output budget does not say
	Prefill      string `yaml:"prefill"`       // yes, no; "" = by the model's name
	Bearer       bool   `yaml:"bearer"`        // the key is an access token
	BudgetField  string `yaml:"budget_field"`  // max_tokens or max_completion_tokens; "" = the profile's
	Continuation string `yaml:"continuation"`  // user_turn, partial or prefix; "" = the profile's
	DoneOptional bool   `yaml:"done_optional"` // the server never sends [DONE]
	Conversation bool   `yaml:"conversation"`  // tell the hub the session's id

	Headers map[string]string `yaml:"headers"`
	Extra   map[string]any    `yaml:"extra"` // further fields of the request's body
}

// Provider answers model requests.
type Provider interface {
	Service() loop.Service
	Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome
	Inspect(ctx context.Context, req loop.Request) loop.Inspection
}

// Use is what the settings are used with.
type Use struct {
	Native bool                     // steer running operations
	Quiet  time.Duration            // longest silence of a model server; 0 = the adapter's default
	Getenv func(name string) string // reads the environment
}

// Kinds are the protocols' names, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(protocols)) }

// protocol is one wire protocol.
type protocol struct {
	keyEnv  string   // where the key is looked for, unless the settings say
	baseURL string   // its own service; "" = there is none, the address must be given
	keyless bool     // its own service asks for no key
	service bool     // a service id takes the place of the model
	has     []string // the settings that not every protocol has
	open    func(Settings, ready) (Provider, error)
}

// ready is what the settings come to.
type ready struct {
	use   Use
	key   httpwire.Secret
	extra map[string]event.RawJSON
	http  httpwire.Config
}

var protocols = map[string]protocol{
	"chat": {
		keyEnv: "OPENAI_API_KEY", baseURL: openAI, open: newChat,
		has: []string{"profile", "store", "budget_field", "continuation", "done_optional", "headers"},
	},
	"responses": {
		keyEnv: "OPENAI_API_KEY", baseURL: openAI, open: newResponses,
		has: []string{"profile", "store", "background", "transport", "headers"},
	},
	"anthropic": {
		keyEnv: "ANTHROPIC_API_KEY", baseURL: anthropic.DefaultBaseURL, open: newAnthropic,
		has: []string{"max_tokens", "prefill", "headers"},
	},
	"gemini": {
		keyEnv: "GEMINI_API_KEY", baseURL: gemini.DefaultBaseURL, open: newGemini,
		has: []string{"bearer", "headers"},
	},
	"ollama": {
		keyEnv: "OLLAMA_API_KEY", baseURL: ollama.DefaultBaseURL, keyless: true, open: newOllama,
		has: []string{"headers"},
	},
	"bailing": {
		keyEnv: "BAILING_API_KEY", service: true, open: newBailing,
		has: []string{"profile", "budget_field", "continuation", "done_optional", "conversation"},
	},
}

// given are the settings that not every protocol has, as far as they are set.
func (p Settings) given() []string {
	var out []string
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"profile", p.Profile != ""}, {"store", p.Store}, {"background", p.Background}, {"transport", p.Transport != ""},
		{"max_tokens", p.MaxTokens != 0}, {"prefill", p.Prefill != ""}, {"bearer", p.Bearer},
		{"budget_field", p.BudgetField != ""}, {"continuation", p.Continuation != ""},
		{"done_optional", p.DoneOptional}, {"conversation", p.Conversation}, {"headers", len(p.Headers) > 0},
	} {
		if s.set {
			out = append(out, s.name)
		}
	}
	return out
}

// Open makes the adapter; it asks nothing yet.
func Open(p Settings, use Use) (Provider, error) {
	proto, ok := protocols[p.Kind]
	if !ok {
		return nil, fmt.Errorf("provider %q is not known; use one of %s", p.Kind, strings.Join(Kinds(), ", "))
	}
	if err := p.check(proto); err != nil {
		return nil, err
	}
	r := ready{use: use, http: httpwire.Config{HeaderTimeout: use.Quiet, IdleTimeout: use.Quiet}}
	var err error
	if r.key, err = p.key(proto, use.Getenv); err != nil {
		return nil, err
	}
	if r.extra, err = p.fields(); err != nil {
		return nil, err
	}
	p.fill(proto)
	return proto.open(p, r)
}

func (p Settings) check(proto protocol) error {
	for _, name := range p.given() {
		if !slices.Contains(proto.has, name) {
			return fmt.Errorf("provider.%s is not for %s; leave it out (it belongs to %s)", name, p.Kind, strings.Join(having(name), ", "))
		}
	}
	switch {
	case proto.service && p.Model != "":
		return fmt.Errorf("provider.model is not for %s: the hub's service chooses it; give --service-id, or provider.service_id", p.Kind)
	case proto.service && p.ServiceID == "":
		return errors.New("no service: name one of the hub's with --service-id, or as provider.service_id in the configuration file")
	case !proto.service && p.ServiceID != "":
		return fmt.Errorf("provider.service_id is not for %s; name a model with --model", p.Kind)
	case !proto.service && p.Model == "":
		return errors.New("no model: name one with --model, or as provider.model in the configuration file")
	case p.MaxTokens < 0:
		return errors.New("provider.max_tokens must not be negative; leave it out for the default")
	case p.BaseURL == "" && p.Profile != "" && p.Profile != "openai" || p.BaseURL == "" && proto.baseURL == "":
		return fmt.Errorf("no base URL for %s: give --base-url, or provider.base_url in the configuration file", p.who())
	}
	return nil
}

func (p Settings) who() string {
	if p.Profile != "" {
		return "profile " + p.Profile
	}
	return p.Kind
}

// having are the protocols that have a setting.
func having(setting string) []string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(protocols)) {
		if slices.Contains(protocols[kind].has, setting) {
			out = append(out, kind)
		}
	}
	return out
}

// key reads the key from the environment. A server of one's own may need none.
func (p Settings) key(proto protocol, getenv func(string) string) (httpwire.Secret, error) {
	name := p.APIKeyEnv
	if name == "" {
		name = proto.keyEnv
	}
	key := getenv(name)
	own := p.BaseURL == "" || p.BaseURL == proto.baseURL
	if key == "" && (p.APIKeyEnv != "" || proto.service || own && !proto.keyless) {
		return "", fmt.Errorf("no API key: the environment variable %s is empty; set it, or name another one with --api-key-env", name)
	}
	return httpwire.Secret(key), nil
}

// fill sets the profile and the address that are not named.
func (p *Settings) fill(proto protocol) {
	if p.Profile == "" && slices.Contains(proto.has, "profile") {
		p.Profile = "generic"
		if p.BaseURL == "" {
			p.Profile = "openai"
		}
	}
	if p.BaseURL == "" {
		p.BaseURL = proto.baseURL
	}
}

// fields are the further fields as JSON, the same bytes each time.
func (p Settings) fields() (map[string]event.RawJSON, error) {
	extra := map[string]event.RawJSON{}
	for name, value := range p.Extra {
		b, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("provider.extra.%s: %w", name, err)
		}
		extra[name] = b
	}
	return extra, nil
}

func newChat(p Settings, r ready) (Provider, error) {
	return chat.New(chat.Config{
		BaseURL: p.BaseURL, Model: p.Model, Profile: p.Profile, APIKey: r.key, Store: p.Store,
		BudgetField: p.BudgetField, Continuation: chat.Continuation(p.Continuation), DoneOptional: p.DoneOptional,
		Headers: p.Headers, Extra: r.extra, HTTP: r.http,
	})
}

func newResponses(p Settings, r ready) (Provider, error) {
	if r.use.Native && p.Transport != string(responses.TransportWebSocket) {
		return nil, errors.New("config: steering native: responses can be steered over a WebSocket alone; give --transport websocket, or set steering to request_boundary")
	}
	return responses.New(responses.Config{
		BaseURL: p.BaseURL, Model: p.Model, Profile: p.Profile, APIKey: r.key,
		Transport: responses.Transport(p.Transport), Steering: r.use.Native, Store: p.Store, Background: p.Background,
		Headers: p.Headers, Extra: r.extra, HTTP: r.http, Socket: responses.SocketConfig{IdleTimeout: r.use.Quiet},
	})
}

func newAnthropic(p Settings, r ready) (Provider, error) {
	return anthropic.New(anthropic.Config{
		BaseURL: p.BaseURL, Model: p.Model, APIKey: r.key, MaxTokens: p.MaxTokens, Prefill: anthropic.Prefill(p.Prefill),
		Headers: p.Headers, Extra: r.extra, HTTP: r.http,
	})
}

func newGemini(p Settings, r ready) (Provider, error) {
	return gemini.New(gemini.Config{
		BaseURL: p.BaseURL, Model: p.Model, APIKey: r.key, Bearer: p.Bearer,
		Headers: p.Headers, Extra: r.extra, HTTP: r.http,
	})
}

func newOllama(p Settings, r ready) (Provider, error) {
	return ollama.New(ollama.Config{
		BaseURL: p.BaseURL, Model: p.Model, APIKey: r.key, Headers: p.Headers, Extra: r.extra, HTTP: r.http,
	})
}

func newBailing(p Settings, r ready) (Provider, error) {
	return bailing.New(bailing.Config{
		BaseURL: p.BaseURL, ServiceID: p.ServiceID, Profile: p.Profile, APIKey: r.key,
		BudgetField: p.BudgetField, Continuation: chat.Continuation(p.Continuation), DoneOptional: p.DoneOptional,
		Conversation: p.Conversation, Extra: r.extra, HTTP: r.http,
	})
}
