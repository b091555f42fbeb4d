// Package ollama is the adapter for Ollama's own chat protocol: /api/chat, one
// JSON object a line.
//
// Invariants
//
//  1. One request an operation, never a second: no retry, no redirect.
//  2. Body bytes are saved before anything is read from them.
//  3. A done reason counts by whitelist, and only on the line that says done.
//     The server says length also when the context window is full: Fold tells
//     the two apart, or recognises neither. Evidence that contradicts itself is
//     unrecognised.
//  4. Nothing is repaired: arguments are the bytes that came.
//  5. Requests are a function of the request and the settings, byte for byte.
//     Each says truncate: false and shift: false, so that the server never
//     drops a part of the context in silence.
//  6. The API key is in the request's header and nowhere else.
//
// It keeps no state between requests. The parts: request.go builds, fold.go and
// answer.go read, judge.go decides. Thinking is not sent back: a context does
// not hold it. The protocol has no look-up.
package ollama

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

// DefaultBaseURL is a server on this machine.
const DefaultBaseURL = "http://127.0.0.1:11434"

// Config says which server to ask, and how. Model is required.
type Config struct {
	// BaseURL is what /api/chat is appended to; default DefaultBaseURL.
	BaseURL string
	// Model is the model's name, as the server knows it.
	Model string
	// APIKey is sent as Authorization: Bearer, for servers behind a proxy;
	// "" = none is sent.
	APIKey httpwire.Secret
	// Headers are added to each request. Their values are not part of the
	// descriptor's revision.
	Headers map[string]string
	// Extra are further fields of the request's body, such as think or
	// keep_alive, as JSON values; options is merged with ours. Without an
	// option num_ctx the server's default context window is small.
	Extra map[string]event.RawJSON
	// HTTP holds the timeouts and size limits. Loading a model counts towards
	// the header timeout.
	HTTP httpwire.Config
}

// ownFields of the request's body are not for Config.Extra to set.
var ownFields = []string{"model", "stream", "messages", "tools", "truncate", "shift"}

// budgetOption is the option that is not for Config.Extra to set.
const budgetOption = "num_predict"

// ownHeaders are not for Config.Headers to set. An idempotency key would make
// Go's transport repeat a request.
var ownHeaders = []string{
	"Authorization", "Content-Type", "Content-Length", "Accept", "Accept-Encoding",
	"Host", "Idempotency-Key", "X-Idempotency-Key",
}

const maxSetting = 4096

func (c Config) withDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
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
		return errors.New("ollama: config: BaseURL is not an http or https URL, such as " + DefaultBaseURL)
	case u.User != nil, u.RawQuery != "":
		return errors.New("ollama: config: BaseURL holds credentials or a query; use APIKey")
	}
	return nil
}

func (c Config) validateNames() error {
	switch {
	case c.Model == "" || len(c.Model) > maxSetting:
		return errors.New("ollama: config: Model is missing or too long; set the model's name as the server knows it")
	case !printable(string(c.APIKey)):
		return errors.New("ollama: config: APIKey holds a space or a control character; check how it was read")
	}
	return nil
}

func (c Config) validateHeaders() error {
	for name, value := range c.Headers {
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("ollama: config: Headers may not set %s: the adapter does", name)
		}
		if name == "" || !printable(name) || strings.ContainsAny(value, "\r\n\x00") || len(value) > maxSetting {
			return fmt.Errorf("ollama: config: Headers: %q is no usable header", name)
		}
	}
	return nil
}

func (c Config) validateExtra() error {
	for name, value := range c.Extra {
		if slices.Contains(ownFields, name) {
			return fmt.Errorf("ollama: config: Extra may not set %s: the adapter does", name)
		}
		if !value.IsValid() {
			return fmt.Errorf("ollama: config: Extra: %s is not one JSON value", name)
		}
	}
	_, err := c.options(0)
	return err
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
		return nil, fmt.Errorf("ollama: config: %w", err)
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, errors.New("ollama: config: BaseURL is not a URL")
	}
	revision, err := cfg.revision()
	if err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: cfg, http: client,
		endpoint: base.JoinPath("api", "chat").String(),
		service:  loop.Service{ID: "ollama/" + cfg.Model, Revision: revision},
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
		BaseURL, Model string
		Headers        []string
		Extra          map[string]jsontext.Value
	}{c.BaseURL, c.Model, headers, c.Extra}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("ollama: config: %w", err)
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
	fold := NewFold(req.OutputBudget, out)
	res := a.http.Do(ctx, httpwire.Request{
		Method: http.MethodPost, URL: a.endpoint, Header: a.header(), Body: body,
	}, out.Raw, func(b []byte) bool {
		fold.Write(b)
		return fold.Done()
	})
	if res.Status/100 != 2 {
		return res.Outcome(httpwire.Refusal{Code: bodyCode(res.ErrorBody)})
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
	h.Set("Accept", "application/x-ndjson")
	if a.cfg.APIKey != "" {
		h.Set("Authorization", "Bearer "+string(a.cfg.APIKey))
	}
	return h
}
