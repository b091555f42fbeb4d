package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopd/loopd/loop"
)

func TestContentAsText(t *testing.T) {
	tools, err := New(Config{Command: "x", MaxResult: 200})
	if err != nil {
		t.Fatal(err)
	}
	structured := func(v any, content ...sdk.Content) *sdk.CallToolResult {
		return &sdk.CallToolResult{StructuredContent: v, Content: content}
	}
	value := map[string]any{"b": 1.5, "a": []any{true, nil, "x"}}
	for _, c := range []struct {
		name string
		in   *sdk.CallToolResult
		want loop.ToolOutcome
	}{
		{"nothing", &sdk.CallToolResult{}, loop.ToolOutcome{}},
		{"lines", texts("a", "b\nc"), loop.ToolOutcome{Result: "a\nb\nc"}},
		{"an error", &sdk.CallToolResult{IsError: true, Content: texts("no").Content}, loop.ToolOutcome{Result: "no", Failed: true}},
		{"structured alone", structured(value), loop.ToolOutcome{Result: `{"a":[true,null,"x"],"b":1.5}`}},
		{"said twice", structured(value, texts(`{ "b": 1.50, "a":[true,null,"x"] }`).Content...), loop.ToolOutcome{Result: `{ "b": 1.50, "a":[true,null,"x"] }`}},
		{"said otherwise", structured(value, texts("1.5 of a").Content...), loop.ToolOutcome{Result: "1.5 of a\n" + `{"a":[true,null,"x"],"b":1.5}`}},
		{"an image", &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: []byte("1234")}}},
			loop.ToolOutcome{Result: "[image, image/png, 4 bytes; not shown]"}},
		{"a sound", &sdk.CallToolResult{Content: []sdk.Content{&sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("12")}}},
			loop.ToolOutcome{Result: "[audio, audio/wav, 2 bytes; not shown]"}},
		{"a link", &sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{Name: "n", URI: "file:///x"}}},
			loop.ToolOutcome{Result: "[link to n: file:///x]"}},
		{"a text resource", &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", Text: "inside"}}}},
			loop.ToolOutcome{Result: "inside"}},
		{"a blob", &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "u", MIMEType: "m", Blob: []byte("123")}}}},
			loop.ToolOutcome{Result: "[resource u, m, 3 bytes; not shown]"}},
		{"an empty resource", &sdk.CallToolResult{Content: []sdk.Content{&sdk.EmbeddedResource{}}}, loop.ToolOutcome{Result: "[empty resource]"}},
		{"no UTF-8", texts("a\xffb"), loop.ToolOutcome{Result: "a\uFFFDb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tools.outcome("t", c.in); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	if got := tools.outcome("t", texts(strings.Repeat("x", 200))); got.Failed {
		t.Errorf("the largest: %+v", got)
	}
}
