package responses

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
)

// Config says which server to ask, and how. BaseURL and Model are required.
type Config struct {
	// BaseURL is what /responses is appended to: it usually ends in /v1. The
	// only query that it may have is api-version (Azure).
	BaseURL string
	// Model is the model's name, as the server knows it.
	Model string
	// APIKey is sent as the profile asks; "" = none is sent.
	APIKey httpwire.Secret
	// Profile names the kind of server: openai (the default), azure, deepseek
	// or generic. With generic an answer is continued, and tools run, only if
	// an output budget is configured and the server reports usage.
	Profile string
	// Transport is http (the default) or websocket.
	Transport Transport
	// Steering says that the model takes steering input while it runs; it
	// needs Transport websocket. Of OpenAI's models the GPT-6 family does.
	Steering bool
	// Store asks the server to keep responses, so that a lost answer can be
	// looked up by the id that its first event told.
	Store bool
	// Background lets a response run on when its stream breaks off, and reads
	// on where it broke; it needs Store and Transport http.
	Background bool
	// Headers are added to each request, for routers that ask for some. Their
	// values are not part of the descriptor's revision.
	Headers map[string]string
	// Extra are further fields of the request's body, such as reasoning or
	// temperature, as JSON values.
	Extra map[string]event.RawJSON

	// Resumes is how often a background stream that broke off is read on;
	// default 5, negative = never.
	Resumes int
	// ResumeWait is the wait before the first of them; it doubles each time.
	// Default 500 ms.
	ResumeWait time.Duration
	// InspectTimeout bounds one look-up, its repetitions included; default
	// 25 s. It should be less than the loop's own.
	InspectTimeout time.Duration
	// MissingFor is for how long a look-up that finds nothing asks again:
	// responses are known to appear late. Default 15 s, negative = not at all.
	MissingFor time.Duration

	// HTTP holds the timeouts and size limits of HTTP exchanges; its TLS and
	// ConnectTimeout serve WebSockets too.
	HTTP httpwire.Config
	// Socket holds those of WebSockets.
	Socket SocketConfig
}

// Transport is how requests travel.
type Transport string

// The transports.
const (
	TransportHTTP      Transport = "http"
	TransportWebSocket Transport = "websocket"
)

// SocketConfig holds the timeouts and limits of WebSockets; the zero value
// means the defaults.
type SocketConfig struct {
	// HandshakeTimeout bounds connecting and the opening handshake; default
	// 30 s. Nothing has left when it strikes.
	HandshakeTimeout time.Duration
	// WriteTimeout bounds the sending of one message; default 30 s.
	WriteTimeout time.Duration
	// IdleTimeout bounds the wait for the next message; default 5 min: a model
	// that thinks sends nothing.
	IdleTimeout time.Duration
	// SettleTimeout bounds, once a response ended, the wait for what becomes
	// of steering that the server has not answered or not applied; default
	// 30 s.
	SettleTimeout time.Duration
	// MaxMessageBytes bounds one message; default 64 MiB.
	MaxMessageBytes int64
	// MaxBytes bounds all messages of an operation; default 256 MiB.
	MaxBytes int64
	// MaxAge is how old a connection may be that is kept because a response
	// waits for its tools' results; default 55 min. OpenAI ends them after 60.
	MaxAge time.Duration
	// MaxKept bounds such connections; default 64. The oldest goes first.
	MaxKept int
}

// ownFields of the request's body are not for Config.Extra to set.
var ownFields = []string{
	"type", "model", "stream", "stream_options", "stream_id", "store", "background", "max_output_tokens",
	"input", "tools", "metadata", "previous_response_id", "conversation",
}

// ownHeaders are not for Config.Headers to set. An idempotency key would make
// Go's transport repeat a request.
var ownHeaders = []string{
	"Authorization", "Api-Key", "Content-Type", "Content-Length", "Accept", "Accept-Encoding",
	"Host", "Idempotency-Key", "X-Idempotency-Key", "Connection", "Upgrade",
}

const maxSetting = 4096

// orDefault sets a value that is not set.
func orDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func (c Config) withDefaults() Config {
	orDefault(&c.Profile, "openai")
	orDefault(&c.Transport, TransportHTTP)
	orDefault(&c.Resumes, 5)
	orDefault(&c.ResumeWait, 500*time.Millisecond)
	orDefault(&c.InspectTimeout, 25*time.Second)
	orDefault(&c.MissingFor, 15*time.Second)
	orDefault(&c.Socket.HandshakeTimeout, 30*time.Second)
	orDefault(&c.Socket.WriteTimeout, 30*time.Second)
	orDefault(&c.Socket.IdleTimeout, 5*time.Minute)
	orDefault(&c.Socket.SettleTimeout, 30*time.Second)
	orDefault(&c.Socket.MaxMessageBytes, 64<<20)
	orDefault(&c.Socket.MaxBytes, 256<<20)
	orDefault(&c.Socket.MaxAge, 55*time.Minute)
	orDefault(&c.Socket.MaxKept, 64)
	return c
}

func (c Config) validate() error {
	return errors.Join(c.validateURL(), c.validateNames(), c.validateTransport(), c.validateLimits(), c.validateHeaders(), c.validateExtra())
}

func (c Config) validateURL() error {
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("responses: config: BaseURL is not an http or https URL, such as https://api.openai.com/v1 (WebSockets use it too)")
	case u.User != nil:
		return errors.New("responses: config: BaseURL holds credentials; use APIKey")
	}
	for name := range u.Query() {
		if name != "api-version" {
			return fmt.Errorf("responses: config: BaseURL has the query %q; only api-version may stand there, a key belongs into APIKey", name)
		}
	}
	return nil
}

func (c Config) validateNames() error {
	switch {
	case c.Model == "" || len(c.Model) > maxSetting:
		return errors.New("responses: config: Model is missing or too long; set the model's name as the server knows it")
	case !printable(string(c.APIKey)):
		return errors.New("responses: config: APIKey holds a space or a control character; check how it was read")
	}
	return nil
}

func (c Config) validateTransport() error {
	socket := c.Transport == TransportWebSocket
	switch {
	case !socket && c.Transport != TransportHTTP:
		return fmt.Errorf("responses: config: Transport %q is not known; use http or websocket", c.Transport)
	case c.Steering && !socket:
		return errors.New("responses: config: Steering needs Transport websocket")
	case c.Background && socket:
		return errors.New("responses: config: Background needs Transport http: a WebSocket has no background responses")
	case c.Background && !c.Store:
		return errors.New("responses: config: Background needs Store: only a stored response can be read on")
	}
	return nil
}

func (c Config) validateLimits() error {
	s := c.Socket
	if min(c.ResumeWait, c.InspectTimeout, s.HandshakeTimeout, s.WriteTimeout, s.IdleTimeout, s.SettleTimeout, s.MaxAge) < 0 {
		return errors.New("responses: config: a timeout is negative; leave it 0 for the default")
	}
	if min(s.MaxMessageBytes, s.MaxBytes, int64(s.MaxKept)) < 0 {
		return errors.New("responses: config: a limit of Socket is negative; leave it 0 for the default")
	}
	return nil
}

func (c Config) validateHeaders() error {
	for name, value := range c.Headers {
		canonical := http.CanonicalHeaderKey(name)
		if slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Sec-Websocket-") {
			return fmt.Errorf("responses: config: Headers may not set %s: the adapter does", name)
		}
		if name == "" || !printable(name) || strings.ContainsAny(value, "\r\n\x00") || len(value) > maxSetting {
			return fmt.Errorf("responses: config: Headers: %q is no usable header", name)
		}
	}
	return nil
}

func (c Config) validateExtra() error {
	for name, value := range c.Extra {
		if slices.Contains(ownFields, name) {
			return fmt.Errorf("responses: config: Extra may not set %s: the adapter does", name)
		}
		if !value.IsValid() {
			return fmt.Errorf("responses: config: Extra: %s is not one JSON value", name)
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

// revision changes when a setting does that changes requests or how answers
// are read; keys and header values are not in it.
func (c Config) revision(p Profile) (string, error) {
	headers := []string{}
	for name := range c.Headers {
		headers = append(headers, http.CanonicalHeaderKey(name))
	}
	slices.Sort(headers)
	b, err := json.Marshal(struct {
		BaseURL, Model              string
		Profile                     Profile
		Transport                   Transport
		Steering, Store, Background bool
		Headers                     []string
		Extra                       map[string]jsontext.Value
	}{c.BaseURL, c.Model, p, c.Transport, c.Steering, c.Store, c.Background, headers, c.Extra}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("responses: config: %w", err)
	}
	return event.Digest(b), nil
}

// Profile says how a server departs from OpenAI's, and how far its terminal
// events can be trusted.
type Profile struct {
	Name string

	// Veto: the server may say completed also of answers that the budget cut.
	// Calls run only if the usage proves that it stayed under a budget that
	// was asked for.
	Veto bool
	// LengthMayBeContext: the server may say max_output_tokens also when the
	// context window is full. See Fold's table.
	LengthMayBeContext bool
	// Plain: only fields that every server knows are sent; store, metadata and
	// stream_options are OpenAI's.
	Plain bool
	// KeyHeader carries the API key bare; "" = Authorization: Bearer.
	KeyHeader string
}

var profiles = map[string]Profile{
	"openai":   {},
	"azure":    {KeyHeader: "api-key"},
	"deepseek": {Plain: true},
	"generic":  {Plain: true, Veto: true, LengthMayBeContext: true},
}

// LookupProfile finds a profile by its name.
func LookupProfile(name string) (Profile, error) {
	p, ok := profiles[name]
	if !ok {
		known := slices.Sorted(maps.Keys(profiles))
		return Profile{}, fmt.Errorf("responses: profile %q: not known; use one of %s", name, strings.Join(known, ", "))
	}
	p.Name = name
	return p, nil
}
