// Package bailing is the adapter for the Bailing hub, which asks a model on
// our behalf under an operation id of ours, saves the answer under it, and
// can be asked for it again.
//
// Invariants
//
//  1. One dispatch an operation, never a second: the loop's operation id is
//     the hub's, so even a request that reached the hub twice runs once.
//  2. Body bytes are saved before anything is read from them.
//  3. Text may show while it comes; how an answer ended, and every call in it,
//     waits for the hub's final operation receipt, and the pieces that came
//     must be the very body that the receipt holds.
//  4. A stream with a gap, another header, a second receipt or none proves
//     nothing: the original is looked up under the same id.
//  5. A look-up only reads. What it cannot tell is no permission: a miss or an
//     unknown outcome never becomes a request under another id.
//  6. The key is in the request's header and nowhere else.
//
// It keeps no state between requests. The parts: request.go builds, fold.go
// reads the stream, operation.go judges a receipt, fault.go judges a refusal,
// inspect.go looks up and cancels. The provider's own answer inside is package
// chat's to read. The hub's billing decides nothing here.
package bailing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// Config says which hub to ask, and how. BaseURL, ServiceID, APIKey and
// Profile are required.
type Config struct {
	// BaseURL is what /usage/v1/model/requests is appended to.
	BaseURL string
	// ServiceID names the service that answers. The hub would choose one
	// itself; but a chain must stay with the service that began it.
	ServiceID string
	// APIKey is a usage key: bhu_s_ and 16 to 512 letters, digits, _ or -.
	APIKey httpwire.Secret
	// Profile names the kind of server behind the service, as package chat
	// knows them; see chat.Config.
	Profile string
	// BudgetField replaces the profile's: max_tokens or max_completion_tokens.
	BudgetField string
	// Continuation is user_turn unless set: whether the hub hands the fields
	// of a prefill on is for who runs it to know.
	Continuation chat.Continuation
	// DoneOptional takes a finish reason and the hub's receipt for a whole
	// answer, for servers that never send [DONE].
	DoneOptional bool
	// Conversation sends the session's id as conversation_id, for the hub's
	// own books.
	Conversation bool
	// Extra are further settings of the request as JSON values: temperature,
	// tool_choice (beside tools only), and the provider options that the hub
	// hands on.
	Extra map[string]event.RawJSON
	// MaxAnswerBytes bounds the provider's body; default 4 MiB, which is what
	// the hub keeps.
	MaxAnswerBytes int64
	// LookUps is how often one look-up asks at most while the hub cannot be
	// reached or is busy, default 4; LookUpWait is the pause before the second
	// time, default 500 ms, and doubles.
	LookUps    int
	LookUpWait time.Duration
	// HTTP holds the timeouts and size limits.
	HTTP httpwire.Config
}

const (
	keyPrefix = "bhu_s_"
	minKey    = 16
	maxKey    = 512
	maxID     = 191 // characters of any id, the hub's limit
)

func (c Config) withDefaults() Config {
	if c.Continuation == "" {
		c.Continuation = chat.ContinueUserTurn
	}
	if c.MaxAnswerBytes == 0 {
		c.MaxAnswerBytes = 4 << 20
	}
	if c.LookUps == 0 {
		c.LookUps = 4
	}
	if c.LookUpWait == 0 {
		c.LookUpWait = 500 * time.Millisecond
	}
	return c
}

func (c Config) validate() error {
	return errors.Join(c.validateURL(), c.validateKey(), c.validateNames(), c.validateExtra())
}

func (c Config) validateURL() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("bailing: config: BaseURL is not an http or https URL, such as https://hub.example.com")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return errors.New("bailing: config: BaseURL holds credentials, a query or a fragment; use APIKey for the key")
	}
	return nil
}

func (c Config) validateKey() error {
	rest, ok := strings.CutPrefix(string(c.APIKey), keyPrefix)
	ok = ok && len(rest) >= minKey && len(rest) <= maxKey
	for _, r := range rest {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}
	if !ok {
		return errors.New("bailing: config: APIKey is no usage key (bhu_s_…); check how it was read")
	}
	return nil
}

func (c Config) validateNames() error {
	switch {
	case !usableID(c.ServiceID):
		return errors.New("bailing: config: ServiceID is missing or unusable; take one of the hub's list of models")
	case !slices.Contains([]string{"", maxTokens, maxCompletionTokens}, c.BudgetField):
		return fmt.Errorf("bailing: config: BudgetField %q is not known; use %s or %s", c.BudgetField, maxTokens, maxCompletionTokens)
	case !slices.Contains([]chat.Continuation{chat.ContinueUserTurn, chat.ContinuePartial, chat.ContinuePrefix}, c.Continuation):
		return fmt.Errorf("bailing: config: Continuation %q is not known; use user_turn, partial or prefix", c.Continuation)
	case c.MaxAnswerBytes < 0 || c.LookUps < 0 || c.LookUpWait < 0:
		return errors.New("bailing: config: MaxAnswerBytes, LookUps or LookUpWait is negative; leave it 0 for the default")
	}
	return nil
}

func (c Config) validateExtra() error {
	for name, value := range c.Extra {
		if name != temperature && name != toolChoice && !slices.Contains(options, name) {
			return fmt.Errorf("bailing: config: Extra may not set %q; use %s, %s or one of %s",
				name, temperature, toolChoice, strings.Join(options, ", "))
		}
		if !value.IsValid() {
			return fmt.Errorf("bailing: config: Extra: %s is not one JSON value", name)
		}
	}
	return nil
}

// profile is the kind of server with the overrides in it.
func (c Config) profile() (chat.Profile, error) {
	p, err := chat.LookupProfile(c.Profile)
	if err != nil {
		return chat.Profile{}, fmt.Errorf("bailing: config: %w", err)
	}
	if c.BudgetField != "" {
		p.BudgetField = c.BudgetField
	}
	p.Continuation = c.Continuation
	p.DoneOptional = p.DoneOptional || c.DoneOptional
	return p, nil
}

// revision changes when a setting does that changes requests or how answers
// are read; the key is not in it.
func (c Config) revision(p chat.Profile) (string, error) {
	b, err := json.Marshal(struct {
		BaseURL, ServiceID string
		Profile            chat.Profile
		Conversation       bool
		Extra              map[string]jsontext.Value
	}{c.BaseURL, c.ServiceID, p, c.Conversation, c.Extra}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("bailing: config: %w", err)
	}
	return event.Digest(b), nil
}

// Adapter asks one service of one hub. It is safe for concurrent use.
type Adapter struct {
	cfg      Config
	profile  chat.Profile
	http     *httpwire.Client
	requests *url.URL
	service  loop.Service
}

// New makes an adapter; it asks nothing yet.
func New(cfg Config) (*Adapter, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	profile, err := cfg.profile()
	if err != nil {
		return nil, err
	}
	client, err := httpwire.New(cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("bailing: config: %w", err)
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, errors.New("bailing: config: BaseURL is not a URL")
	}
	revision, err := cfg.revision(profile)
	if err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: cfg, profile: profile, http: client,
		requests: base.JoinPath("usage", "v1", "model", "requests"),
		service:  loop.Service{ID: "bailing/" + cfg.Profile + "/" + cfg.ServiceID, Revision: revision},
	}, nil
}

// Service says what answers.
func (a *Adapter) Service() loop.Service { return a.service }

// Generate sends one request and reads its answer to the hub's receipt. The
// completion's digest and length are those of the provider's body, whether it
// came as a stream or by a look-up: the hub's own wrapping changes with its
// books.
func (a *Adapter) Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	body, err := a.cfg.body(a.profile, req)
	if err != nil {
		return notBuilt(err)
	}
	fold := newFold(a.original(req), out)
	res := a.http.Do(ctx, httpwire.Request{
		Method: http.MethodPost, URL: a.requests.JoinPath("stream").String(), Header: a.header("text/event-stream"), Body: body,
	}, out.Raw, func(b []byte) bool {
		fold.write(b)
		return fold.done()
	})
	if res.Status/100 != 2 {
		return refused(res)
	}
	outcome := fold.end(res.End)
	if u, ok := outcome.(loop.Uncertain); ok {
		if res.Err != nil {
			u.Detail += ": " + res.Err.Error()
		}
		if evidence := httpwire.Evidence(res.Header); evidence != "" {
			u.Detail += ": " + evidence
		}
		return u
	}
	return outcome
}

// original is what an answer to a request must be of.
func (a *Adapter) original(req loop.Request) original {
	return original{
		operationID: req.OperationID, serviceID: a.cfg.ServiceID,
		profile: a.profile, budget: req.OutputBudget, maxBytes: a.cfg.MaxAnswerBytes,
	}
}

func (a *Adapter) header(accept string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", accept)
	h.Set("Authorization", "Bearer "+string(a.cfg.APIKey))
	return h
}
