// Package anthropic is the adapter for Anthropic's Messages API, streamed.
//
// Invariants
//
//  1. One request an operation, never a second: no retry, no redirect.
//  2. Body bytes are saved before anything is read from them.
//  3. A stop reason counts by whitelist, and only with message_stop; evidence
//     that contradicts itself is unrecognised.
//  4. A tool call is closed by its content_block_stop and by nothing else. Its
//     arguments are the bytes that came; only a closed call to which none came
//     has the arguments {}.
//  5. Requests are a function of the request and the settings, byte for byte.
//  6. A request holds no tool_use without its tool_result in the next user
//     message, and ends with a user message unless the model takes a prefill.
//  7. The API key is in the request's header and nowhere else.
//
// It keeps no state between requests. The parts: request.go builds, fold.go and
// answer.go read, judge.go decides, fault.go reads errors. Thinking is not sent
// back: a context does not hold it. The protocol has no look-up.
package anthropic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// Defaults of a Config.
const (
	DefaultBaseURL   = "https://api.anthropic.com"
	DefaultVersion   = "2023-06-01"
	DefaultMaxTokens = 4096
)

// Config says which model to ask, and how. Model is required.
type Config struct {
	// BaseURL is what /v1/messages is appended to; default DefaultBaseURL.
	BaseURL string
	// Model is the model's name, as the server knows it.
	Model string
	// APIKey is sent as x-api-key; "" = none is sent.
	APIKey httpwire.Secret
	// Version is the anthropic-version header; default DefaultVersion.
	Version string
	// MaxTokens is max_tokens where a request has no output budget of its own:
	// the protocol demands one. Default DefaultMaxTokens.
	MaxTokens int64
	// Prefill says whether the model takes a last message of the assistant as
	// the beginning of its answer: yes, no, or "" = by the model's name. Claude
	// up to 4.5 does, unless it thinks (Extra thinking); later models answer
	// with status 400.
	Prefill Prefill
	// Headers are added to each request (anthropic-beta, for example). Their
	// values are not part of the descriptor's revision.
	Headers map[string]string
	// Extra are further fields of the request's body, such as temperature, as
	// JSON values. With thinking, models refuse histories with tools: their
	// thinking is not kept.
	Extra map[string]event.RawJSON
	// HTTP holds the timeouts and size limits.
	HTTP httpwire.Config
}

// Prefill is whether a model continues a last message of the assistant.
type Prefill string

// The values of Prefill.
const (
	PrefillByModel Prefill = ""
	PrefillYes     Prefill = "yes"
	PrefillNo      Prefill = "no"
)

// ownFields of the request's body are not for Config.Extra to set.
var ownFields = []string{"model", "max_tokens", "stream", "system", "messages", "tools"}

// ownHeaders are not for Config.Headers to set. An idempotency key would make
// Go's transport repeat a request.
var ownHeaders = []string{
	"X-Api-Key", "Anthropic-Version", "Content-Type", "Content-Length", "Accept", "Accept-Encoding",
	"Host", "Idempotency-Key", "X-Idempotency-Key",
}

const maxSetting = 4096

// prefills are the families that take a prefill; a model that is not known to
// take one does not.
var prefills = regexp.MustCompile(
	`(^|[./])claude-(instant-1|2|3(-[57])?-(opus|sonnet|haiku)|(opus|sonnet|haiku)-4([-@]\d{8}|-[015])?($|[@:]|-\d{8}|-v\d))`)

func (c Config) withDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	if c.Version == "" {
		c.Version = DefaultVersion
	}
	if c.MaxTokens == 0 {
		c.MaxTokens = DefaultMaxTokens
	}
	if c.Prefill == PrefillByModel {
		c.Prefill = PrefillNo
		if _, thinks := c.Extra["thinking"]; !thinks && prefills.MatchString(c.Model) {
			c.Prefill = PrefillYes
		}
	}
	return c
}

func (c Config) validate() error {
	return errors.Join(c.validateURL(), c.validateNames(), c.validateHeaders(), c.validateExtra())
}

func (c Config) validateURL() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("anthropic: config: BaseURL is not an http or https URL, such as " + DefaultBaseURL)
	case u.User != nil, u.RawQuery != "":
		return errors.New("anthropic: config: BaseURL holds credentials or a query; use APIKey")
	}
	return nil
}

func (c Config) validateNames() error {
	switch {
	case c.Model == "" || len(c.Model) > maxSetting:
		return errors.New("anthropic: config: Model is missing or too long; set the model's name as the server knows it")
	case c.MaxTokens < 0:
		return errors.New("anthropic: config: MaxTokens is negative; leave it 0 for the default")
	case !slices.Contains([]Prefill{PrefillByModel, PrefillYes, PrefillNo}, c.Prefill):
		return fmt.Errorf("anthropic: config: Prefill %q is not known; use yes, no, or nothing to go by the model's name", c.Prefill)
	case !printable(c.Version):
		return errors.New("anthropic: config: Version holds a space or a control character; use a date such as " + DefaultVersion)
	case !printable(string(c.APIKey)):
		return errors.New("anthropic: config: APIKey holds a space or a control character; check how it was read")
	}
	return nil
}

func (c Config) validateHeaders() error {
	for name, value := range c.Headers {
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("anthropic: config: Headers may not set %s: the adapter does", name)
		}
		if name == "" || !printable(name) || strings.ContainsAny(value, "\r\n\x00") || len(value) > maxSetting {
			return fmt.Errorf("anthropic: config: Headers: %q is no usable header", name)
		}
	}
	return nil
}

func (c Config) validateExtra() error {
	for name, value := range c.Extra {
		if slices.Contains(ownFields, name) {
			return fmt.Errorf("anthropic: config: Extra may not set %s: the adapter does", name)
		}
		if !value.IsValid() {
			return fmt.Errorf("anthropic: config: Extra: %s is not one JSON value", name)
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

// Adapter asks one model. It is safe for concurrent use.
type Adapter struct {
	cfg      Config
	http     *httpwire.Client
	endpoint string
	service  loop.Service
}

// New makes an adapter; it asks nothing yet.
func New(cfg Config) (*Adapter, error) {
	if err := cfg.validateNames(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	client, err := httpwire.New(cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("anthropic: config: %w", err)
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, errors.New("anthropic: config: BaseURL is not a URL")
	}
	revision, err := cfg.revision()
	if err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: cfg, http: client,
		endpoint: base.JoinPath("v1", "messages").String(),
		service:  loop.Service{ID: "anthropic/" + cfg.Model, Revision: revision},
	}, nil
}

// revision changes when a setting does that changes requests or how answers
// are read; keys and header values are not in it.
func (c Config) revision() (string, error) {
	headers := []string{}
	for name := range c.Headers {
		headers = append(headers, http.CanonicalHeaderKey(name))
	}
	slices.Sort(headers)
	b, err := json.Marshal(struct {
		BaseURL, Model, Version string
		MaxTokens               int64
		Prefill                 Prefill
		Headers                 []string
		Extra                   map[string]jsontext.Value
	}{c.BaseURL, c.Model, c.Version, c.MaxTokens, c.Prefill, headers, c.Extra}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("anthropic: config: %w", err)
	}
	return event.Digest(b), nil
}

// Service says what answers.
func (a *Adapter) Service() loop.Service { return a.service }

// Inspect finds nothing: the protocol cannot look an answer up.
func (a *Adapter) Inspect(context.Context, loop.Request) loop.Inspection {
	return loop.Inspection{Observed: event.ObservedUnsupported}
}

// Generate sends one request and reads its answer to the end.
func (a *Adapter) Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	body, err := a.cfg.body(req)
	if err != nil {
		return notBuilt(err)
	}
	fold := NewFold(out)
	res := a.http.Do(ctx, httpwire.Request{
		Method: http.MethodPost, URL: a.endpoint, Header: a.header(), Body: body,
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

func (a *Adapter) header() http.Header {
	h := http.Header{}
	for name, value := range a.cfg.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	h.Set("Anthropic-Version", a.cfg.Version)
	if a.cfg.APIKey != "" {
		h.Set("X-Api-Key", string(a.cfg.APIKey))
	}
	return h
}
