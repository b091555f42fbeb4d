package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
	"github.com/loopd/loopd/internal/provider/recorded"
)

// calls is an answer that calls one tool, in the documented wire shape.
func calls(id, tool, arguments string) recorded.Answer {
	chunk := func(delta, finish string) string {
		return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1767225600,"model":"m",`+
			`"choices":[{"index":0,"delta":%s,"finish_reason":%s}],"usage":null}`+"\n\n", delta, finish)
	}
	return recorded.Answer{Frames: []string{
		chunk(fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, id, tool), "null"),
		chunk(fmt.Sprintf(`{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}`, arguments), "null"),
		chunk("{}", `"tool_calls"`),
		"data: [DONE]\n\n",
	}}
}

func says(text string) recorded.Answer { return recorded.Compose("chatcmpl-2", "m", text) }

// configured starts a daemon with a configuration file.
func (r *rig) configured(yaml string, args ...string) *child {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "loopd.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return r.daemon(append([]string{"--config", file}, args...)...)
}

// tool subscribes to the calls of a tool over a plain NATS connection.
func (r *rig) tool(log *eventlog.Log, name string, serve nats.MsgHandler) {
	r.t.Helper()
	nc, err := nats.Connect(log.Conn().ConnectedUrl())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(nc.Close)
	if _, err := nc.Subscribe("loop.tool."+name, serve); err != nil {
		r.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// text wants the answer to an input.
func (r *rig) text(log *eventlog.Log, id, want string) {
	r.t.Helper()
	if f, ok := r.await(log, id).(host.Finished); !ok || f.Fact.Text != want {
		r.t.Fatalf("%s: %+v, want %q", id, r.await(log, id), want)
	}
}

// asked is the body of the n-th request.
func (r *rig) asked(n int) string {
	r.t.Helper()
	all := r.server.Requests()
	if len(all) < n {
		r.t.Fatalf("%d requests, want %d", len(all), n)
	}
	return string(all[n-1].Body)
}

// A tool of another process runs over NATS, and its result goes to the model.
func TestToolOverNATS(t *testing.T) {
	r := newRig(t, -1, calls("call-1", "lookup", `{"city":"Turin"}`), says("It is 21 degrees in Turin."))
	r.configured(`
tools:
  lookup:
    nats: true
    effect: read
    description: The weather in a city.
    parameters: {type: object, properties: {city: {type: string}}}
`)
	log := r.visit()
	r.tool(log, "lookup", func(m *nats.Msg) {
		result := `{"error":"no arguments"}`
		if strings.Contains(string(m.Data), `"arguments":{"city":"Turin"}`) && m.Header.Get("Loop-Invocation-Id") != "" {
			result = `{"result":"21 degrees"}`
		}
		_ = m.Respond([]byte(result))
	})
	r.submit(log, "in-1")
	r.text(log, "in-1", "It is 21 degrees in Turin.")
	if e := r.until(log, event.TypeInvocationCompleted).Payload.(event.InvocationCompleted); e.Result != "21 degrees" {
		t.Errorf("completed with %+v", e)
	}
	if !strings.Contains(r.asked(1), `"description":"The weather in a city."`) || !strings.Contains(r.asked(1), `"city":{"type":"string"}`) {
		t.Errorf("the model was not told of the tool: %s", r.asked(1))
	}
	if !strings.Contains(r.asked(2), "21 degrees") {
		t.Errorf("the model was not told the result: %s", r.asked(2))
	}
	r.sound(log)
}

// A write that gave no receipt is uncertain: it is not run again, and the
// generation waits for a person's word.
func TestWriteWithoutReceiptIsReconciled(t *testing.T) {
	r := newRig(t, -1, calls("call-1", "book", `{"seat":"7A"}`), says("Seat 7A is yours."))
	r.configured("tools: {book: {nats: true, effect: write}}\ntimeouts: {tool: 300ms}\n")
	log := r.visit()
	arrived := make(chan struct{}, 8)
	r.tool(log, "book", func(*nats.Msg) { arrived <- struct{}{} })
	r.submit(log, "in-1")
	uncertain := r.until(log, event.TypeInvocationUncertain).Payload.(event.InvocationUncertain)
	if uncertain.NextAction != event.ActionReconcile {
		t.Errorf("uncertain with %+v", uncertain)
	}
	status, out, talk := r.loopd("submit", "--data", r.dir, "--session", "s", "--kind", "decision", "--await",
		"--target", uncertain.InvocationID, "--verdict", "reconciled", "the seat was booked")
	if status != exitHeld || strings.TrimSpace(out) != string(event.TypeInvocationReconciled) {
		t.Fatalf("the decision: status %d, %q, %q", status, out, talk)
	}
	r.text(log, "in-1", "Seat 7A is yours.")
	if !strings.Contains(r.asked(2), "the seat was booked") {
		t.Errorf("the model was not told what the person said: %s", r.asked(2))
	}
	if n := len(arrived); n != 1 {
		t.Errorf("the write ran %d times", n)
	}
	r.sound(log)
}

// What an MCP server lists comes as tools, under a prefix, with the server's
// own descriptions; a secret goes to it from the environment.
func TestToolsOfAnMCPServer(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	type in struct {
		Name string `json:"name"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "read", Description: "Reads a file.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "content of " + a.Name}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	t.Setenv("FILES_AUTH", "Bearer k")

	r := newRig(t, -1, calls("call-1", "f_read", `{"name":"a.txt"}`), says("Read."))
	r.configured(fmt.Sprintf("mcp_servers: {files: {url: %q, header_env: {Authorization: FILES_AUTH}, import: {prefix: f_, trust_hints: true}}}", web.URL))
	log := r.visit()
	r.submit(log, "in-1")
	r.text(log, "in-1", "Read.")
	if e := r.until(log, event.TypeInvocationProposed).Payload.(event.InvocationProposed); e.Tool != "f_read" || e.Effect != event.EffectRead {
		t.Errorf("proposed %+v", e)
	}
	if e := r.until(log, event.TypeInvocationCompleted).Payload.(event.InvocationCompleted); e.Result != "content of a.txt" {
		t.Errorf("completed with %+v", e)
	}
	if !strings.Contains(r.asked(1), "Reads a file.") {
		t.Errorf("the model was not told of the tool: %s", r.asked(1))
	}
	r.sound(log)
}
