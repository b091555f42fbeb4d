package mcp

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopd/loopd/loop"
)

// outcome reads the server's answer to a call.
func (t *Tools) outcome(tool string, r *sdk.CallToolResult) loop.ToolOutcome {
	if r.InputRequests != nil {
		return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf(
			"tool %s asks for more input before it goes on, and nobody is there to give it; put all it needs into the arguments", tool)}
	}
	parts := make([]string, 0, len(r.Content)+1)
	for _, c := range r.Content {
		parts = append(parts, textOf(c))
	}
	if r.StructuredContent != nil {
		b, err := json.Marshal(r.StructuredContent, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf("tool %s ran, and what it did stands, but its structured content cannot be read: %v", tool, err)}
		}
		if !says(parts, b) {
			parts = append(parts, string(b))
		}
	}
	return t.bounded(tool, strings.ToValidUTF8(strings.Join(parts, "\n"), "\uFFFD"), r.IsError)
}

// bounded holds a result to its limit. One that is too large is a failure that
// says that the tool did run.
func (t *Tools) bounded(tool, result string, failed bool) loop.ToolOutcome {
	if len(result) > t.cfg.MaxResult {
		return loop.ToolOutcome{Failed: true, Result: fmt.Sprintf(
			"tool %s ran, and what it did stands, but its result cannot be used: it has %d bytes, at most %d are allowed; ask for less, or raise the limit",
			tool, len(result), t.cfg.MaxResult)}
	}
	return loop.ToolOutcome{Result: result, Failed: failed}
}

// textOf is a block of content as text for a model.
func textOf(c sdk.Content) string {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text
	case *sdk.ImageContent:
		return note("image", c.MIMEType, len(c.Data))
	case *sdk.AudioContent:
		return note("audio", c.MIMEType, len(c.Data))
	case *sdk.ResourceLink:
		return fmt.Sprintf("[link to %s: %s]", c.Name, c.URI)
	case *sdk.EmbeddedResource:
		switch {
		case c.Resource == nil:
			return "[empty resource]"
		case c.Resource.Text != "":
			return c.Resource.Text
		}
		return note("resource "+c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob))
	}
	return fmt.Sprintf("[content of an unknown kind, %T]", c)
}

func note(kind, media string, size int) string {
	return fmt.Sprintf("[%s, %s, %d bytes; not shown]", kind, media, size)
}

// says reports whether one of the texts is this JSON value.
func says(texts []string, value []byte) bool {
	want := jsontext.Value(bytes.Clone(value))
	if want.Canonicalize() != nil {
		return false
	}
	for _, text := range texts {
		got := jsontext.Value(text)
		if got.Canonicalize() == nil && bytes.Equal(got, want) {
			return true
		}
	}
	return false
}
