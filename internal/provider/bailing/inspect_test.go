package bailing

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// views are what a look-up makes of each recorded view.
var views = map[string]string{
	"complete-length.json":     "complete: completion output_budget",
	"complete-tools.json":      "complete: completion tool_calls",
	"complete-json.json":       "complete: completion stop",
	"complete-cut-body.json":   "error",
	"complete-http-error.json": "complete: failure ran overloaded 503",
	"complete-error-body.json": "complete: failure rejected context_length_exceeded 200",
	"expired.json":             "expired",
	"admitted.json":            "pending",
	"pending.json":             "pending",
	"unknown.json":             "error",
	"rejected.json":            "complete: failure rejected USAGE_PROVIDER_REJECTED 400",
	"cancelled.json":           "complete: failure not_dispatched cancelled 0",
	"cancelled-late.json":      "error",
	"cancelled-running.json":   "error",

	"bailing-get-recovered.json":      "complete: completion output_budget",
	"bailing-get-pending.json":        "pending",
	"bailing-get-unknown.json":        "error",
	"bailing-get-rejected.json":       "complete: failure rejected USAGE_PROVIDER_REJECTED 400",
	"bailing-get-expired.json":        "expired",
	"bailing-get-cancelled-late.json": "error",
}

func TestRecordedViews(t *testing.T) {
	found := files(t, "testdata/views/*.json", "bailing-get-*.json")
	if len(found) < 14 {
		t.Fatalf("%d views; want 14 or more", len(found))
	}
	for name, body := range found {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 1)
			url, requests := hub(t, func(w http.ResponseWriter, r *http.Request) {
				sent, _ := io.ReadAll(r.Body)
				asked <- r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Authorization") + string(sent)
				status(200, "application/json", body)(w, r)
			})
			got := saw(adapter(t, url).Inspect(t.Context(), ask()))
			if views[name] == "" || got != views[name] {
				t.Errorf("saw %s; want %s", got, views[name])
			}
			if want := "GET /usage/v1/model/requests/op_segment_1 Bearer " + key; requests.Load() != 1 || want != <-asked {
				t.Errorf("%d requests; want one: %s", requests.Load(), want)
			}
		})
	}
}

// TestStreamAndLookUpAgree: one answer has one digest, whichever way it came.
func TestStreamAndLookUpAgree(t *testing.T) {
	for stream, of := range map[string]string{"length.sse": "complete-length.json", "replay.sse": "complete-length.json", "json-crlf-delta.sse": "complete-json.json"} {
		streamed, _ := play(t, files(t, "testdata/streams/*.sse", "none")[stream])
		url, _ := hub(t, status(200, "application/json", files(t, "testdata/views/*.json", "none")[of]))
		found := adapter(t, url).Inspect(t.Context(), ask())
		if found.Completion == nil || sum(streamed) != sum(*found.Completion) {
			t.Errorf("%s: %s\n%s: %+v", stream, sum(streamed), of, found)
		}
	}
}

func TestLookUps(t *testing.T) {
	good := completed(hello + stop + fin)
	cases := []struct {
		name, want string
		requests   int32
		handle     http.HandlerFunc
	}{
		{"complete", "complete: completion stop", 1, status(200, "application/json", good)},
		{"without a length", "complete: completion stop", 1, raw("HTTP/1.1 200 OK\r\n\r\n" + good)},
		{"not found", "missing", 1, refuse(404, "USAGE_OPERATION_NOT_FOUND", "unknown", "contact_operator")},
		{"another 404 of the hub", "error", 1, refuse(404, "USAGE_UNSUPPORTED", "unknown", "contact_operator")},
		{"another 404", "error", 1, status(404, "text/plain", "404 page not found")},
		{"404 of another schema", "error", 1, status(404, "application/json", `{"error":"USAGE_OPERATION_NOT_FOUND"}`)},
		{"401", "error", 1, refuse(401, "USAGE_CREDENTIAL_INVALID", "not_dispatched", "reauthenticate")},
		{"409", "error", 1, refuse(409, "USAGE_RECOVERY_GAP", "unknown", "contact_operator")},
		{"busy", "error", 4, status(503, "text/plain", "")},
		{"too many", "error", 4, status(429, "text/plain", "")},
		{"unreachable", "error", 4, func(w http.ResponseWriter, _ *http.Request) { hangUp(w) }},
		{"cut", "error", 4, raw("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + good)},
		{"redirect", "error", 1, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }},
		{"page", "error", 1, status(200, "text/html", "<html></html>")},
		{"empty", "error", 1, status(200, "application/json", "")},
		{"two views", "error", 1, status(200, "application/json", good+good)},
		{"another operation", "error", 1, status(200, "application/json", strings.Replace(good, opID, "op_2", 1))},
		{"another service", "error", 1, status(200, "application/json", strings.Replace(good, `"svc"`, `"other"`, 1))},
		{"contradictory", "error", 1, status(200, "application/json", strings.Replace(good, `"dispatch":"completed"`, `"dispatch":"rejected"`, 1))},
		{"complete and expired", "error", 1, status(200, "application/json", completed(hello+stop+fin, `,"response_expired":true`))},
		{"complete without a response", "error", 1, status(200, "application/json", view("completed", "complete", "completed"))},
		{"pending with a response", "error", 1, status(200, "application/json", view("dispatch_committed", "pending", "unknown", `,"response":`+whole(hello)))},
		{"cancelled with a response", "error", 1, status(200, "application/json", view("cancelled", "cancelled", "not_dispatched", `,"response":`+whole(hello)))},
		{"provider's page", "complete: failure ran provider_http_502 502", 1, status(200, "application/json", strings.Replace(completed("<html>"), `"status":200`, `"status":502`, 1))},
		{"provider's whole answer with a failure's status", "complete: failure ran provider_http_500 500", 1, status(200, "application/json", strings.Replace(good, `"status":200`, `"status":500`, 1))},
		{"status as text", "error", 1, status(200, "application/json", strings.Replace(good, `"status":200`, `"status":"200"`, 1))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, requests := hub(t, c.handle)
			if got := saw(adapter(t, url).Inspect(t.Context(), ask())); got != c.want {
				t.Errorf("saw %s; want %s", got, c.want)
			}
			if n := requests.Load(); n != c.requests {
				t.Errorf("%d requests; want %d", n, c.requests)
			}
		})
	}
}

func TestLookUpGoesOn(t *testing.T) {
	n := atomic.Int32{}
	url, _ := hub(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			hangUp(w)
		case 2:
			status(503, "text/plain", "busy")(w, r)
		default:
			status(200, "application/json", completed(hello+stop+fin))(w, r)
		}
	})
	if got := saw(adapter(t, url).Inspect(t.Context(), ask())); got != "complete: completion stop" || n.Load() != 3 {
		t.Errorf("saw %s after %d requests; want complete after 3", got, n.Load())
	}
}

func TestLookUpWaitDoubles(t *testing.T) {
	url, _ := hub(t, status(503, "text/plain", ""))
	a := adapter(t, url, func(c *Config) { c.LookUpWait = 20 * time.Millisecond })
	begun := time.Now()
	a.Inspect(t.Context(), ask())
	if took := time.Since(begun); took < 140*time.Millisecond {
		t.Errorf("four look-ups took %s; want 20 ms, 40 ms and 80 ms between them", took)
	}
}

func TestLookUpEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url, requests := hub(t, func(w http.ResponseWriter, r *http.Request) {
		status(503, "text/plain", "")(w, r)
		cancel()
	})
	a := adapter(t, url, func(c *Config) { c.LookUpWait = time.Hour })
	if got := saw(a.Inspect(ctx, ask())); got != "error" || requests.Load() != 1 {
		t.Errorf("saw %s after %d requests; want error after one", got, requests.Load())
	}
}

func TestIDsInAddresses(t *testing.T) {
	asked := make(chan string, 1)
	url, requests := hub(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.Method + " " + r.URL.EscapedPath() })
	a := adapter(t, url)
	for id, want := range map[string]string{
		"a/../b?c%d": "/usage/v1/model/requests/a%2F..%2Fb%3Fc%25d",
		"世":          "/usage/v1/model/requests/%E4%B8%96",
	} {
		req := loop.Request{OperationID: id}
		a.Inspect(t.Context(), req)
		if got := <-asked; got != "GET "+want {
			t.Errorf("asked %s; want GET %s", got, want)
		}
		a.Cancel(t.Context(), req)
		if got := <-asked; got != "POST "+want+"/cancel" {
			t.Errorf("asked %s; want POST %s/cancel", got, want)
		}
	}
	sent := requests.Load()
	for _, id := range []string{"", ".", "..", " a", "a\n", strings.Repeat("a", 192)} {
		req := loop.Request{OperationID: id}
		if found := a.Inspect(t.Context(), req); found.Observed != event.ObservedError {
			t.Errorf("id %q: %s; want error", id, found.Observed)
		}
		if found := a.Cancel(t.Context(), req); found.Observed != event.ObservedError {
			t.Errorf("cancel %q: %s; want error", id, found.Observed)
		}
	}
	if requests.Load() != sent {
		t.Error("an unusable id was asked for")
	}
}

// TestInspectSaved: what was saved counts up to the receipt, and only with it.
func TestInspectSaved(t *testing.T) {
	body := hello + limit + fin
	stream := frames(started, provider(body), receipt(completed(body)))
	url, requests := hub(t, status(200, "application/json", view("completed", "complete", "completed", `,"response_expired":true`)))
	a := adapter(t, url)
	for _, c := range []struct {
		name, saved, want string
		asked             int32
	}{
		{"whole", stream, "complete: completion output_budget", 0},
		{"whole, and a comment", stream + ": keep-alive\n\n", "complete: completion output_budget", 0},
		{"rejected", frames(started, receipt(view("failed", "failed", "rejected"))), "complete: failure rejected no_code 0", 0},
		{"nothing", "", "expired", 1},
		{"cut", stream[:len(stream)-1], "expired", 1},
		{"no receipt", frames(started, provider(body)), "expired", 1},
		{"more than one receipt", stream + frame(4, receipt(completed(body))), "expired", 1},
		{"mismatch", frames(started, provider(body[1:]), receipt(completed(body))), "expired", 1},
		{"pending receipt", frames(receipt(view("admitted", "pending", "not_dispatched"))), "expired", 1},
		{"a refusal", refusal("USAGE_PENDING", "unknown", "inspect_original"), "expired", 1},
	} {
		before := requests.Load()
		got := saw(a.InspectSaved(t.Context(), ask(), []byte(c.saved)))
		if n := requests.Load() - before; got != c.want || n != c.asked {
			t.Errorf("%s: saw %s after %d requests; want %s after %d", c.name, got, n, c.want, c.asked)
		}
	}
}

func TestCancel(t *testing.T) {
	for body, want := range map[string]string{
		view("cancelled", "cancelled", "not_dispatched"): "complete: failure not_dispatched cancelled 0",
		view("cancelled", "cancelled", "unknown"):        "error",
		completed(hello + stop + fin):                    "complete: completion stop",
		view("dispatch_committed", "pending", "unknown"): "pending",
	} {
		asked := ""
		url, _ := hub(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			asked = fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, b)
			status(200, "application/json", body)(w, r)
		})
		if got := saw(adapter(t, url).Cancel(t.Context(), ask())); got != want {
			t.Errorf("saw %s; want %s", got, want)
		}
		if want := "POST /usage/v1/model/requests/op_segment_1/cancel {}"; asked != want {
			t.Errorf("asked %s; want %s", asked, want)
		}
	}
	url, requests := hub(t, status(503, "text/plain", ""))
	if got := saw(adapter(t, url).Cancel(t.Context(), ask())); got != "error" || requests.Load() != 1 {
		t.Errorf("saw %s after %d requests; want error after one", got, requests.Load())
	}
}
