// Package responses is the adapter for OpenAI's Responses API and the servers
// that speak it, over HTTP with server-sent events or over a WebSocket, where
// a running response can be steered.
//
// Invariants
//
//  1. One generating request an operation, never a second: no retry, no
//     redirect. A broken background stream may be read on, which is read-only.
//  2. Bytes are saved before anything is read from them.
//  3. An answer counts only with its terminal event; *.done events prove
//     nothing, an item's status does. Evidence that contradicts itself is
//     unrecognised.
//  4. Nothing is repaired: arguments are the bytes that came.
//  5. Requests are a function of the request and the settings, byte for byte.
//  6. The API key is in the request's header and nowhere else.
//  7. A steering input is refused only if nothing of it left, or the server
//     said so before it took it. It is applied when the successor is created,
//     and never before.
//
// The parts: config.go; request.go and input.go build; fold.go, answer.go,
// item.go and judge.go read; stream.go is HTTP, websocket.go and socket.go the
// other way; steer.go is what became of steering; inspect.go looks up.
// Reasoning is not sent back: a context does not hold it.
package responses

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// Adapter asks one model of one server. It is safe for concurrent use.
type Adapter struct {
	cfg      Config
	profile  Profile
	http     *httpwire.Client
	dialer   *http.Client // of WebSockets
	endpoint *url.URL
	service  loop.Service
	live     live
}

// New makes an adapter; it asks nothing yet.
func New(cfg Config) (*Adapter, error) {
	cfg = cfg.withDefaults()
	profile, err := LookupProfile(cfg.Profile)
	if err != nil {
		return nil, err
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	client, err := httpwire.New(cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("responses: config: %w", err)
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("responses: config: BaseURL is not a URL")
	}
	revision, err := cfg.revision(profile)
	if err != nil {
		return nil, err
	}
	return &Adapter{
		cfg: cfg, profile: profile, http: client, dialer: dialer(cfg),
		endpoint: base.JoinPath("responses"),
		service: loop.Service{
			ID: "responses/" + cfg.Profile + "/" + cfg.Model, Revision: revision, Native: cfg.Steering,
		},
		live: newLive(),
	}, nil
}

// Service says what answers.
func (a *Adapter) Service() loop.Service { return a.service }

// Generate sends one request and reads its answer to the end.
func (a *Adapter) Generate(ctx context.Context, req loop.Request, out loop.Stream) loop.Outcome {
	if a.cfg.Transport == TransportWebSocket {
		return a.converse(ctx, req, out)
	}
	return a.stream(ctx, req, out)
}

func (a *Adapter) header(accept string) http.Header {
	h := http.Header{}
	for name, value := range a.cfg.Headers {
		h.Set(name, value)
	}
	if accept != "" {
		h.Set("Content-Type", "application/json")
		h.Set("Accept", accept)
	}
	switch {
	case a.cfg.APIKey == "":
	case a.profile.KeyHeader != "":
		h.Set(a.profile.KeyHeader, string(a.cfg.APIKey))
	default:
		h.Set("Authorization", "Bearer "+string(a.cfg.APIKey))
	}
	return h
}
