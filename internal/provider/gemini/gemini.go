// Package gemini is the adapter for Google's Gemini API, streamGenerateContent
// over server-sent events; Vertex AI speaks the same.
//
// Invariants
//
//  1. One request an operation, never a second: no retry, no redirect, no
//     continuation of its own.
//  2. Body bytes are saved before anything is read from them.
//  3. The protocol has no terminal frame, and older models put STOP on every
//     frame. So an answer is whole only if the last frame with a candidate has
//     a finish reason and the body came to an end that HTTP itself framed; of a
//     JSON body, if its closing brace came. Evidence that contradicts itself is
//     unrecognised.
//  4. Arguments are the bytes that came. Arguments that were streamed in pieces
//     are put together, and count only once their call was closed.
//  5. Requests are a function of the request and the settings, byte for byte.
//  6. The API key is in the request's header and nowhere else.
//
// What rule 3 cannot see: a proxy that ends an answer early but politely,
// between two frames that both say STOP. Where more than one frame carried a
// reason, calls are therefore vetoed.
//
// It keeps no state between requests. The parts: request.go builds, fold.go,
// answer.go and partial.go read, judge.go decides, fault.go reads errors. A
// context holds neither thoughts nor their signatures nor continuation tokens:
// see Config.Signature. The protocol has no look-up.
package gemini

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

// DefaultBaseURL is the Gemini API's.
const DefaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"

// SkipSignature is what Google documents for calls whose thought signature is
// not at hand: the model takes it instead of one.
const SkipSignature = "skip_thought_signature_validator"

// Config says which model to ask, and how. Model is required.
type Config struct {
	// BaseURL is what /models/<Model>:streamGenerateContent is appended to;
	// default DefaultBaseURL. For Vertex AI it ends in /publishers/google.
	BaseURL string
	// Model is the model's name, as the server knows it, without "models/".
	Model string
	// APIKey is sent as x-goog-api-key, or, with Bearer, as Authorization:
	// Bearer (Vertex AI's access tokens); "" = none is sent.
	APIKey httpwire.Secret
	Bearer bool
	// Signature stands for the thought signature of the first call of each
	// model turn, which a context does not hold. Models from Gemini 3 on refuse
	// a turn with calls that has none. "" = SkipSignature for a model that is
	// not known to do without; NoSignature = none is sent.
	Signature string
	// OmitCallIDs leaves the ids of calls and their results out, for servers
	// that have no such field: they match them by name and order.
	OmitCallIDs bool
	// OpenAPISchemas sends the tools' schemas as parameters (an OpenAPI subset)
	// instead of parametersJsonSchema, for servers without it.
	OpenAPISchemas bool
	// Headers are added to each request. Their values are not part of the
	// descriptor's revision.
	Headers map[string]string
	// Extra are further fields of the request's body, such as safetySettings,
	// as JSON values; generationConfig is merged with ours.
	Extra map[string]event.RawJSON
	// HTTP holds the timeouts and size limits.
	HTTP httpwire.Config
}

// NoSignature as Config.Signature sends none.
const NoSignature = "none"

// ownFields of the request's body are not for Config.Extra to set.
var ownFields = []string{"contents", "systemInstruction", "system_instruction", "tools", "generation_config"}

// ownGeneration are the fields of generationConfig that are ours.
var ownGeneration = []string{"maxOutputTokens", "max_output_tokens", "candidateCount", "candidate_count"}

// ownHeaders are not for Config.Headers to set. An idempotency key would make
// Go's transport repeat a request.
var ownHeaders = []string{
	"X-Goog-Api-Key", "Authorization", "Content-Type", "Content-Length", "Accept", "Accept-Encoding",
	"Host", "Idempotency-Key", "X-Idempotency-Key",
}

const maxSetting = 4096

// unsigned are the families that take calls without a thought signature.
var unsigned = regexp.MustCompile(`^(gemini-[12][.-]|gemini-pro|gemma-)`)

func (c Config) withDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	if c.Signature == "" {
		c.Signature = SkipSignature
		if unsigned.MatchString(c.Model) {
			c.Signature = NoSignature
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
		return errors.New("gemini: config: BaseURL is not an http or https URL, such as " + DefaultBaseURL)
	case u.User != nil, u.RawQuery != "":
		return errors.New("gemini: config: BaseURL holds credentials or a query; use APIKey")
	}
	return nil
}

func (c Config) validateNames() error {
	switch {
	case c.Model == "" || len(c.Model) > maxSetting:
		return errors.New("gemini: config: Model is missing or too long; set the model's name as the server knows it")
	case strings.ContainsAny(c.Model, "/?#%:") || !printable(c.Model):
		return fmt.Errorf("gemini: config: Model %q is no bare name; leave out models/ and put the rest of the address into BaseURL", c.Model)
	case !printable(c.Signature):
		return errors.New("gemini: config: Signature holds a space or a control character; it is base64")
	case !printable(string(c.APIKey)):
		return errors.New("gemini: config: APIKey holds a space or a control character; check how it was read")
	}
	return nil
}

func (c Config) validateHeaders() error {
	for name, value := range c.Headers {
		if slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("gemini: config: Headers may not set %s: the adapter does", name)
		}
		if name == "" || !printable(name) || strings.ContainsAny(value, "\r\n\x00") || len(value) > maxSetting {
			return fmt.Errorf("gemini: config: Headers: %q is no usable header", name)
		}
	}
	return nil
}

func (c Config) validateExtra() error {
	for name, value := range c.Extra {
		if slices.Contains(ownFields, name) {
			return fmt.Errorf("gemini: config: Extra may not set %s: the adapter does", name)
		}
		if !value.IsValid() {
			return fmt.Errorf("gemini: config: Extra: %s is not one JSON value", name)
		}
	}
	_, err := c.generation(0)
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
		return nil, fmt.Errorf("gemini: config: %w", err)
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, errors.New("gemini: config: BaseURL is not a URL")
	}
	revision, err := cfg.revision()
	if err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: cfg, http: client,
		endpoint: base.JoinPath("models", cfg.Model+":streamGenerateContent").String() + "?alt=sse",
		service:  loop.Service{ID: "gemini/" + cfg.Model, Revision: revision},
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
		BaseURL, Model, Signature   string
		OmitCallIDs, OpenAPISchemas bool
		Headers                     []string
		Extra                       map[string]jsontext.Value
	}{c.BaseURL, c.Model, c.Signature, c.OmitCallIDs, c.OpenAPISchemas, headers, c.Extra}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("gemini: config: %w", err)
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
		return false // nothing but the end says that it is the end
	})
	if res.Status/100 != 2 {
		return refused(res)
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
	switch {
	case a.cfg.APIKey == "":
	case a.cfg.Bearer:
		h.Set("Authorization", "Bearer "+string(a.cfg.APIKey))
	default:
		h.Set("X-Goog-Api-Key", string(a.cfg.APIKey))
	}
	return h
}
