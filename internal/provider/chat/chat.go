// Package chat is the adapter for OpenAI's Chat Completions and the many
// servers that speak it.
//
// Invariants
//
//  1. One request an operation, never a second: no retry, no redirect.
//  2. Body bytes are saved before anything is read from them.
//  3. A finish reason counts by whitelist, and only with the protocol's
//     terminal frame; evidence that contradicts itself is unrecognised.
//  4. Nothing is repaired: arguments are the bytes that came.
//  5. Requests are a function of the request and the settings, byte for byte.
//  6. The API key is in the request's header and nowhere else.
//
// It keeps no state between requests. The parts: profile.go is the table of
// servers, request.go builds, fold.go reads, judge.go decides, inspect.go looks
// up. Reasoning is not sent back: a context does not hold it.
package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// Config says which server to ask, and how. BaseURL, Model and Profile are
// required.
type Config struct {
	// BaseURL is what /chat/completions is appended to: it usually ends in
	// /v1. The only query that it may have is api-version (Azure).
	BaseURL string
	// Model is the model's name, as the server knows it.
	Model string
	// APIKey is sent as the profile asks; "" = none is sent.
	APIKey httpwire.Secret
	// Profile names the kind of server: openai, azure, deepseek, dashscope,
	// moonshot, openrouter, llamacpp, vllm, ollama-v1, lmstudio or generic.
	// Where length may mean a full context (the last five), an answer is
	// continued only if an output budget is configured and the server reports
	// usage; where tool_calls may hide a cutoff (the last four), the same
	// holds for running tools.
	Profile string
	// BudgetField replaces the profile's: max_tokens or max_completion_tokens.
	BudgetField string
	// Continuation replaces the profile's: user_turn, partial or prefix.
	// DashScope's thinking models need user_turn; DeepSeek's prefix works with
	// a base URL that ends in /beta, and is user_turn otherwise.
	Continuation Continuation
	// DoneOptional takes a finish reason and an end that HTTP itself framed
	// for a whole answer, for servers that never send [DONE].
	DoneOptional bool
	// Store asks OpenAI to keep completions (store: true), with the operation
	// id in their metadata: the one way to look up an answer that was lost.
	// Profile openai only.
	Store bool
	// Headers are added to each request, for routers that ask for some. Their
	// values are not part of the descriptor's revision.
	Headers map[string]string
	// Extra are further fields of the request's body, such as temperature or
	// reasoning_effort, as JSON values.
	Extra map[string]event.RawJSON
	// HTTP holds the timeouts and size limits.
	HTTP httpwire.Config
}

// ownFields of the request's body are not for Config.Extra to set.
var ownFields = []string{
	"model", "stream", "stream_options", "n", maxTokens, maxCompletionTokens,
	"messages", "tools", "store", "metadata",
}

// ownHeaders are not for Config.Headers to set. An idempotency key would make
// Go's transport repeat a request.
var ownHeaders = []string{
	"Authorization", "Api-Key", "Content-Type", "Content-Length", "Accept", "Accept-Encoding",
	"Host", "Idempotency-Key", "X-Idempotency-Key",
}

const maxSetting = 4096

// settings fills the profile's gaps and overrides in.
func (c Config) settings() (Profile, error) {
	p, err := LookupProfile(c.Profile)
	if err != nil {
		return Profile{}, err
	}
	if c.BudgetField != "" {
		p.BudgetField = c.BudgetField
	}
	if c.Continuation != "" {
		p.Continuation = c.Continuation
	} else if p.Continuation == ContinuePrefix && !strings.HasSuffix(strings.TrimRight(c.BaseURL, "/"), "/beta") {
		p.Continuation = ContinueUserTurn
	}
	p.DoneOptional = p.DoneOptional || c.DoneOptional
	return p, nil
}

func (c Config) validate() error {
	return errors.Join(c.validateURL(), c.validateNames(), c.validateHeaders(), c.validateExtra())
}

func (c Config) validateURL() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("chat: config: BaseURL is not an http or https URL, such as https://api.openai.com/v1")
	case u.User != nil:
		return errors.New("chat: config: BaseURL holds credentials; use APIKey")
	}
	for name := range u.Query() {
		if name != "api-version" {
			return fmt.Errorf("chat: config: BaseURL has the query %q; only api-version may stand there, a key belongs into APIKey", name)
		}
	}
	return nil
}

func (c Config) validateNames() error {
	switch {
	case c.Model == "" || len(c.Model) > maxSetting:
		return errors.New("chat: config: Model is missing or too long; set the model's name as the server knows it")
	case !slices.Contains([]string{"", maxTokens, maxCompletionTokens}, c.BudgetField):
		return fmt.Errorf("chat: config: BudgetField %q is not known; use %s or %s", c.BudgetField, maxTokens, maxCompletionTokens)
	case !slices.Contains([]Continuation{"", ContinueUserTurn, ContinuePartial, ContinuePrefix}, c.Continuation):
		return fmt.Errorf("chat: config: Continuation %q is not known; use user_turn, partial or prefix", c.Continuation)
	case c.Store && c.Profile != "openai":
		return fmt.Errorf("chat: config: Store is for profile openai only, not for %q", c.Profile)
	case !printable(string(c.APIKey)):
		return errors.New("chat: config: APIKey holds a space or a control character; check how it was read")
	}
	return nil
}

func (c Config) validateHeaders() error {
	for name, value := range c.Headers {
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("chat: config: Headers may not set %s: the adapter does", name)
		}
		if name == "" || !printable(name) || strings.ContainsAny(value, "\r\n\x00") || len(value) > maxSetting {
			return fmt.Errorf("chat: config: Headers: %q is no usable header", name)
		}
	}
	return nil
}

func (c Config) validateExtra() error {
	for name, value := range c.Extra {
		if slices.Contains(ownFields, name) {
			return fmt.Errorf("chat: config: Extra may not set %s: the adapter does", name)
		}
		if !value.IsValid() {
			return fmt.Errorf("chat: config: Extra: %s is not one JSON value", name)
		}
	}
	return nil
}

// printable reports whether s is ASCII without spaces, and not too long.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= maxSetting
}

// Adapter asks one model of one server. It is safe for concurrent use.
type Adapter struct {
	cfg      Config
	profile  Profile
	http     *httpwire.Client
	endpoint *url.URL
	service  loop.Service
}

// New makes an adapter; it asks nothing yet.
func New(cfg Config) (*Adapter, error) {
	profile, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	client, err := httpwire.New(cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("chat: config: %w", err)
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, errors.New("chat: config: BaseURL is not a URL")
	}
	revision, err := cfg.revision(profile)
	if err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: cfg, profile: profile, http: client,
		endpoint: base.JoinPath("chat", "completions"),
		service:  loop.Service{ID: "chat/" + cfg.Profile + "/" + cfg.Model, Revision: revision},
	}, nil
}

// revision changes when a setting does that changes requests or how answers
// are read; keys and header values are not in it.
func (c Config) revision(p Profile) (string, error) {
	headers := []string{}
	for name := range c.Headers {
		headers = append(headers, http.CanonicalHeaderKey(name))
	}
	slices.Sort(headers)
	b, err := json.Marshal(struct {
		BaseURL, Model string
		Profile        Profile
		Store          bool
		Headers        []string
		Extra          map[string]jsontext.Value
	}{c.BaseURL, c.Model, p, c.Store, headers, c.Extra}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("chat: config: %w", err)
	}
	return event.Digest(b), nil
}

// Service says what answers.
func (a *Adapter) Service() loop.Service { return a.service }

// Generate sends one request and reads its answer to the end.
func (a *Adapter) Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	body, err := a.cfg.body(a.profile, req)
	if err != nil {
		return notBuilt(err)
	}
	fold := NewFold(a.profile, req.OutputBudget, out)
	res := a.http.Do(ctx, httpwire.Request{
		Method: http.MethodPost, URL: a.endpoint.String(), Header: a.header("text/event-stream"), Body: body,
	}, out.Raw, func(b []byte) bool {
		fold.Write(b)
		return fold.Done()
	})
	if res.Status/100 != 2 {
		return res.Outcome(refusal(res.ErrorBody))
	}
	return explain(fold.End(res.End), res)
}

func notBuilt(err error) loop.Failure {
	code := "invalid_request"
	if errors.Is(err, errHistory) {
		code = "invalid_history"
	}
	return loop.Failure{Dispatch: event.DispatchNotDispatched, Code: code, NextAction: "nothing was sent: " + err.Error()}
}

func refusal(body []byte) httpwire.Refusal {
	f := bodyFault(body)
	if f == nil {
		return httpwire.Refusal{}
	}
	return httpwire.Refusal{Code: f.code, Upstream: f.upstream}
}

// explain adds to an outcome what only the exchange knows.
func explain(outcome loop.Outcome, res httpwire.Result) loop.Outcome {
	switch o := outcome.(type) {
	case loop.Uncertain:
		if res.Err != nil {
			o.Detail += ": " + res.Err.Error()
		}
		if evidence := httpwire.Evidence(res.Header); evidence != "" {
			o.Detail += ": " + evidence
		}
		return o
	case loop.Failure:
		o.HTTPStatus = res.Status
		return o
	}
	return outcome
}

func (a *Adapter) header(accept string) http.Header {
	h := http.Header{}
	for name, value := range a.cfg.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", accept)
	switch {
	case a.cfg.APIKey == "":
	case a.profile.KeyHeader != "":
		h.Set(a.profile.KeyHeader, string(a.cfg.APIKey))
	default:
		h.Set("Authorization", "Bearer "+string(a.cfg.APIKey))
	}
	return h
}
