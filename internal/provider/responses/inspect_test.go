package responses_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/responses"
)

func stored(id, status, more string) string {
	return `{"object":"response","id":"` + id + `","status":"` + status + `"` + more + `}`
}

const storedText = `,"output":[{"type":"message","status":"completed","content":[{"type":"output_text","text":"Hello"}]}],"usage":{"input_tokens":1,"output_tokens":2}`

func quick(c *responses.Config) {
	c.Store, c.MissingFor, c.InspectTimeout = true, -1, 5*time.Second
}

func TestInspectSaved(t *testing.T) {
	begun := sse(created("r1", ""), hello)
	lines := created("r1", "") + "\n" + ended("r1", "incomplete", `,"incomplete_details":{"reason":"steered"}`) + "\n"
	for _, c := range []struct {
		name, saved string
		handle      http.HandlerFunc
		want        string // observed, finish or failure
		id          string
	}{
		{"completed", begun, status(200, "application/json", stored("r1", "completed", storedText)), "complete stop", "r1"},
		{"cut off", begun, status(200, "application/json", stored("r1", "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`+storedText)), "complete output_budget", "r1"},
		{"unknown reason", begun, status(200, "application/json", stored("r1", "incomplete", `,"incomplete_details":{"reason":"max_messages"}`+storedText)), "complete unrecognised", "r1"},
		{"failed", begun, status(200, "application/json", stored("r1", "failed", `,"error":{"code":"server_error"}`)), "complete ran server_error", "r1"},
		{"cancelled", begun, status(200, "application/json", stored("r1", "cancelled", "")), "complete ran response_cancelled", "r1"},
		{"its own operation", begun, status(200, "application/json", stored("r1", "completed", `,"metadata":{"op":"op-1"}`+storedText)), "complete stop", "r1"},
		{"another operation", begun, status(200, "application/json", stored("r1", "completed", `,"metadata":{"op":"op-2"}`+storedText)), "error", "r1"},
		{"another response", begun, status(200, "application/json", stored("r2", "completed", storedText)), "error", "r1"},
		{"queued", begun, status(200, "application/json", stored("r1", "queued", "")), "pending", "r1"},
		{"in progress", begun, status(200, "application/json", stored("r1", "in_progress", "")), "pending", "r1"},
		{"unknown status", begun, status(200, "application/json", stored("r1", "paused", "")), "error", "r1"},
		{"steered", begun, status(200, "application/json", stored("r1", "incomplete", `,"incomplete_details":{"reason":"steered"}`)), "unsupported", "r1"},
		{"404", begun, status(404, "application/json", apiError), "missing", "r1"},
		{"401", begun, status(401, "application/json", apiError), "error", "r1"},
		{"429", begun, status(429, "application/json", apiError), "error", "r1"},
		{"500", begun, status(500, "text/plain", ""), "error", "r1"},
		{"page", begun, status(200, "text/html", "<html>"), "error", "r1"},
		{"other JSON", begun, status(200, "application/json", `{"object":"list"}`), "error", "r1"},
		{"body cut", begun, raw("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + stored("r1", "completed", "")), "error", "r1"},
		{"hang up", begun, func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }, "error", "r1"},
		{"redirect", begun, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, "error", "r1"},

		{"nothing saved", "", nil, "unsupported", ""},
		{"no id saved", sse(hello), nil, "unsupported", ""},
		{"an error saved", apiError, nil, "unsupported", ""},
		{"cut in the beginning", begun[:40], nil, "unsupported", ""},
		{"the beginning alone", strings.TrimRight(sse(created("r1", "")), "\n"), status(200, "application/json", stored("r1", "completed", storedText)), "complete stop", "r1"},
		{"messages", lines, status(200, "application/json", stored("r1", "completed", storedText)), "complete stop", "r1"},
		{"messages of a successor", lines + created("r2", "r1") + "\n" + hello[:20], status(200, "application/json", stored("r2", "completed", storedText)), "complete stop", "r2"},
		{"a whole body", stored("r1", "queued", ""), status(200, "application/json", stored("r1", "completed", storedText)), "complete stop", "r1"},
		{"an id to escape", sse(created("a/../b?c", "")), status(200, "application/json", stored("a/../b?c", "completed", storedText)), "complete stop", "a%2F..%2Fb%3Fc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 1)
			url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Method + " " + r.URL.EscapedPath() + " " + r.Header.Get("Authorization")
				c.handle(w, r)
			})
			found := adapter(t, url, quick).InspectSaved(t.Context(), ask(), []byte(c.saved))
			got := string(found.Observed)
			if found.Completion != nil {
				got += " " + string(found.Completion.Finish)
			}
			if found.Failure != nil {
				got += " " + found.Failure.Dispatch + " " + found.Failure.Code
			}
			if got != c.want {
				t.Errorf("found %s; want %s", got, c.want)
			}
			if c.id == "" {
				if len(asked) != 0 {
					t.Errorf("asked %q; want nothing", <-asked)
				}
			} else if got := receive(t, asked); got != "GET /v1/responses/"+c.id+" Bearer "+key {
				t.Errorf("asked %q; want %q", got, c.id)
			}
			if found.Completion != nil && found.Completion.Text != "Hello" {
				t.Errorf("text %q; want Hello", found.Completion.Text)
			}
		})
	}
}

func TestInspectUnsupported(t *testing.T) {
	url, requests := server(t, forever(""))
	a := adapter(t, url)
	if got := a.Inspect(t.Context(), ask()); got.Observed != event.ObservedUnsupported {
		t.Errorf("without an id: %+v; want unsupported", got)
	}
	if got := a.InspectSaved(t.Context(), ask(), []byte(answer)); got.Observed != event.ObservedUnsupported {
		t.Errorf("nothing stored: %+v; want unsupported", got)
	}
	if requests.Load() != 0 {
		t.Error("it asked")
	}
}

// TestInspectLateResponse: a response may be found a while after it is missed.
func TestInspectLateResponse(t *testing.T) {
	n := atomic.Int32{}
	url, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			status(404, "application/json", apiError)(w, r)
			return
		}
		status(200, "application/json", stored("r1", "completed", storedText))(w, r)
	})
	a := adapter(t, url, func(c *responses.Config) { quick(c); c.MissingFor = 80 * time.Millisecond })
	if got := a.InspectSaved(t.Context(), ask(), []byte(answer)); got.Observed != event.ObservedComplete || n.Load() != 3 {
		t.Errorf("found %+v at look-up %d; want complete, 3", got, n.Load())
	}
}

func TestInspectDeadline(t *testing.T) {
	url, _ := server(t, forever(""))
	a := adapter(t, url, func(c *responses.Config) { quick(c); c.InspectTimeout = 30 * time.Millisecond })
	if got := a.InspectSaved(t.Context(), ask(), []byte(answer)); got.Observed != event.ObservedError {
		t.Errorf("found %+v; want error: no answer came", got)
	}
	missing, _ := server(t, status(404, "application/json", apiError))
	a = adapter(t, missing, func(c *responses.Config) {
		quick(c)
		c.InspectTimeout, c.MissingFor = 100*time.Millisecond, time.Hour
	})
	if got := a.InspectSaved(t.Context(), ask(), []byte(answer)); got.Observed != event.ObservedMissing {
		t.Errorf("found %+v; want missing", got)
	}
}
