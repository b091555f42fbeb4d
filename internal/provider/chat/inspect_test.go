package chat_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/chat"
	"github.com/loopd/loopd/loop"
)

func TestInspect(t *testing.T) {
	item := func(op, rest string) string { return `{"id":"c","metadata":{"op":"` + op + `"},` + rest + `}` }
	list := func(items string) string {
		return `{"object":"list","data":[` + items + `],"has_more":false}`
	}
	const whole = `"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2}`
	cases := []struct {
		name   string
		status int
		body   string
		want   event.Observed
	}{
		{"found", 200, list(item("op-1", whole)), event.ObservedComplete},
		{"none", 200, list(""), event.ObservedMissing},
		{"another's", 200, list(item("op-2", whole)), event.ObservedError},
		{"two", 200, list(item("op-1", whole) + "," + item("op-1", whole)), event.ObservedError},
		{"without a choice", 200, list(item("op-1", `"choices":[]`)), event.ObservedError},
		{"no list", 200, `{"object":"list"}`, event.ObservedError},
		{"no JSON", 200, `<html>`, event.ObservedError},
		{"404", 404, `{"error":{"code":"x"}}`, event.ObservedError},
		{"500", 500, ``, event.ObservedError},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var asked string
			url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r.Method + " " + r.URL.Path + " " + r.URL.Query().Get("metadata[op]") + " " + r.Header.Get("Authorization")
				w.WriteHeader(c.status)
				write(w, c.body)
			})
			a := adapter(t, url, func(cfg *chat.Config) { cfg.Store = true })
			got := a.Inspect(t.Context(), ask())
			if got.Observed != c.want || (got.Completion != nil) != (c.want == event.ObservedComplete) {
				t.Errorf("inspection %+v; want %s", got, c.want)
			}
			if want := "GET /v1/chat/completions op-1 Bearer " + key; asked != want {
				t.Errorf("asked %q; want %q", asked, want)
			}
			if got.Completion != nil && (got.Completion.Finish != event.FinishOutputBudget || got.Completion.Text != "Hello") {
				t.Errorf("completion %+v; want Hello, output_budget", got.Completion)
			}
		})
	}
}

func TestInspectOfAFailure(t *testing.T) {
	url, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		write(w, `{"object":"list","data":[{"metadata":{"op":"op-1"},"error":{"code":"server_error"}}]}`)
	})
	got := adapter(t, url, func(c *chat.Config) { c.Store = true }).Inspect(t.Context(), ask())
	if got.Observed != event.ObservedComplete || got.Failure == nil || got.Failure.Dispatch != event.DispatchRan {
		t.Errorf("inspection %+v; want a failure that ran", got)
	}
}

func TestInspectUnsupported(t *testing.T) {
	url, requests := server(t, forever(""))
	if got := adapter(t, url).Inspect(t.Context(), ask()); got.Observed != event.ObservedUnsupported || requests.Load() != 0 {
		t.Errorf("inspection %+v after %d requests; want unsupported, without asking", got, requests.Load())
	}
}

func TestInspectOfABrokenAnswer(t *testing.T) {
	const list = `{"object":"list","data":[]}`
	url, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n%s", list)
		buf.Flush()
		conn.Close()
	})
	got := adapter(t, url, func(c *chat.Config) { c.Store = true }).Inspect(t.Context(), ask())
	if got.Observed != event.ObservedError {
		t.Errorf("inspection %+v; want error: the list is not whole", got)
	}
}

func TestInspectWithoutAServer(t *testing.T) {
	url, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { hangUp(w) })
	a := adapter(t, url, func(c *chat.Config) { c.Store = true })
	if got := a.Inspect(t.Context(), loop.Request{OperationID: "op-1"}); got.Observed != event.ObservedError {
		t.Errorf("inspection %+v; want error", got)
	}
}
