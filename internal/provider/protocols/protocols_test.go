package protocols

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/loopd/loopd/loop"
)

// Each wire protocol reaches the server that it is told, with the key from its
// own variable, and the fields of the body that were configured.
func TestEachProtocolAsksItsServer(t *testing.T) {
	const hubKey = "bhu_s_0123456789abcdef"
	for kind, want := range map[string]struct{ path, header, value, id string }{
		"chat":      {"/v1/chat/completions", "Authorization", "Bearer k", "chat/generic/m"},
		"responses": {"/v1/responses", "Authorization", "Bearer k", "responses/generic/m"},
		"anthropic": {"/v1/v1/messages", "X-Api-Key", "k", "anthropic/m"},
		"gemini":    {"/v1/models/m:streamGenerateContent", "X-Goog-Api-Key", "k", "gemini/m"},
		"ollama":    {"/v1/api/chat", "Authorization", "Bearer k", "ollama/m"},
		"bailing":   {"/v1/usage/v1/model/requests/stream", "Authorization", "Bearer " + hubKey, "bailing/generic/m"},
	} {
		t.Run(kind, func(t *testing.T) {
			asked := make(chan *http.Request, 1)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r
				w.WriteHeader(http.StatusForbidden)
			}))
			defer web.Close()
			settings := Settings{Kind: kind, BaseURL: web.URL + "/v1", Model: "m"}
			environment := map[string]string{protocols[kind].keyEnv: "k"}
			if protocols[kind].service {
				settings.Model, settings.ServiceID = "", "m"
				environment[protocols[kind].keyEnv] = hubKey
			}
			p, err := Open(settings, Use{Getenv: func(name string) string { return environment[name] }})
			if err != nil {
				t.Fatal(err)
			}
			if p.Service().ID != want.id || p.Service().Native {
				t.Errorf("service %+v, want %s", p.Service(), want.id)
			}
			out := p.Generate(t.Context(), loop.Request{
				SessionID: "s", OperationID: "01J00000000000000000000000", Segment: 1,
				Messages: []loop.Message{{Role: loop.RoleUser, Text: "Hello"}},
			}, deaf{})
			if f, ok := out.(loop.Failure); !ok || f.HTTPStatus != http.StatusForbidden {
				t.Fatalf("outcome %+v, want the refusal", out)
			}
			r := <-asked
			if r.URL.Path != want.path || r.Header.Get(want.header) != want.value {
				t.Errorf("asked %s with %s %q; want %s, %q", r.URL.Path, want.header, r.Header.Get(want.header), want.path, want.value)
			}
		})
	}
}

// Native steering makes a service of responses that says so.
func TestResponsesSteerNatively(t *testing.T) {
	p, err := Open(Settings{Kind: "responses", Model: "m", Transport: "websocket"}, Use{Native: true, Getenv: func(string) string { return "k" }})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Service(); !s.Native || s.ID != "responses/openai/m" {
		t.Errorf("service %+v", s)
	}
}

// The further fields are the same bytes each time, or an owner that takes over
// would send another request than was admitted.
func TestFurtherFieldsKeepTheirBytes(t *testing.T) {
	p := Settings{Extra: map[string]any{"o": map[string]any{"a": 1, "b": 2, "c": 3, "d": 4, "e": []any{true}}}}
	for range 20 {
		got, err := p.fields()
		if err != nil || string(got["o"]) != `{"a":1,"b":2,"c":3,"d":4,"e":[true]}` {
			t.Fatalf("%s, %v", got["o"], err)
		}
	}
}

type deaf struct{}

func (deaf) Raw([]byte) error     { return nil }
func (deaf) Delta(string, string) {}
func (deaf) Message(string)       {}
func (deaf) Applied([]string)     {}
