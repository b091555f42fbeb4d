package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// roleVar makes this test binary an MCP server instead: its value is the kind.
const (
	roleVar    = "LOOPD_TEST_MCP_SERVER"
	effectsVar = "LOOPD_TEST_MCP_EFFECTS" // a file that gets a line a call
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		serve(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// serve is the process of a stdio server.
func serve(role string) {
	fmt.Fprintln(os.Stderr, "serving as", role)
	switch role {
	case "mute": // never answers the handshake
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "broken":
		fmt.Println("this is no protocol")
		return
	case "child": // holds our output, and a port, until it is killed
		signal.Ignore(syscall.SIGTERM)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		note2file("child@" + l.Addr().String())
		select {}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	in := &gatedReader{from: os.Stdin}
	s := newServer(note2file)
	s.AddTool(object("deafen"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		in.deaf = true
		return texts("not listening"), nil
	})
	err := s.Run(context.Background(), &sdk.IOTransport{Reader: in, Writer: stdout{}})
	if role == "stubborn" {
		select {}
	}
	fmt.Fprintln(os.Stderr, "ended:", err)
}

// gatedReader stops reading for good once it is deaf: it is set while nobody
// reads, as the call's answer is not out yet.
type gatedReader struct {
	from io.Reader
	deaf bool
}

func (g *gatedReader) Read(b []byte) (int, error) {
	n, err := g.from.Read(b)
	if strings.Contains(string(b[:n]), `"deafen"`) {
		g.deaf = true
		return n, err
	}
	if g.deaf {
		select {}
	}
	return n, err
}

func (g *gatedReader) Close() error { return nil }

type stdout struct{}

func (stdout) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdout) Close() error                { return os.Stdout.Close() }

func note2file(call string) {
	f, err := os.OpenFile(os.Getenv(effectsVar), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, call)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

func object(name string) *sdk.Tool {
	return &sdk.Tool{Name: name, Description: "does " + name, InputSchema: json.RawMessage(`{"type":"object","properties":{"b":{},"a":{"maximum":10}}}`)}
}

func texts(lines ...string) *sdk.CallToolResult {
	r := &sdk.CallToolResult{}
	for _, l := range lines {
		r.Content = append(r.Content, &sdk.TextContent{Text: l})
	}
	return r
}

// newServer has a tool for each thing that a tool may do; note hears of every
// call.
func newServer(note func(call string)) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{PageSize: 3})
	add := func(tool *sdk.Tool, run func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		s.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			note(tool.Name)
			return run(ctx, r)
		})
	}
	add(object("echo"), func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return texts(string(r.Params.Arguments), fmt.Sprint(r.Params.Meta[MetaInvocation])), nil
	})
	add(object("refuse"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := texts("no such city")
		r.IsError = true
		return r, nil
	})
	add(object("crash"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("out of paper")
	})
	add(object("die"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	})
	add(object("die-with-child"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), roleVar+"=child")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return nil, err
		}
		for b := []byte{}; !strings.Contains(string(b), "child@"); runtime.Gosched() {
			b, _ = os.ReadFile(os.Getenv(effectsVar))
		}
		os.Exit(3)
		return nil, nil
	})
	add(object("hang"), func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		<-ctx.Done()
		note("hang was cancelled")
		return nil, ctx.Err()
	})
	add(object("ask"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{RequestState: "x", InputRequests: sdk.InputRequestMap{"a": &sdk.ElicitParams{Message: "who?", Mode: "form", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}}, nil
	})
	add(object("long"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return texts(strings.Repeat("x", 2000)), nil
	})
	add(object("environment"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return texts(os.Environ()...), nil
	})
	add(object("huge"), func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return texts(strings.Repeat("x", 200_000)), nil
	})
	read, again := object("read-only"), object("idempotent")
	read.Annotations, again.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}, &sdk.ToolAnnotations{IdempotentHint: true}
	for _, tool := range []*sdk.Tool{read, again} {
		add(tool, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return texts("ok"), nil })
	}
	return s
}
