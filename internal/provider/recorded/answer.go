package recorded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/loopd/loopd/internal/provider/sse"
)

// Answer is one answer as it stands on the wire: server-sent events, each with
// its blank line, the last of them [DONE].
type Answer struct {
	Frames []string
	whole  completion
}

// completion is the object that a look-up of a stored completion gives.
type completion struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Created  int64             `json:"created"`
	Model    string            `json:"model"`
	Choices  []choice          `json:"choices"`
	Usage    json.RawMessage   `json:"usage,omitempty"`
	Metadata map[string]string `json:"metadata"`
}

type choice struct {
	Index        int     `json:"index"`
	Message      message `json:"message"`
	FinishReason string  `json:"finish_reason"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chunk is one event of a stream.
type chunk struct {
	ID      string `json:"id"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   string            `json:"content"`
			Refusal   string            `json:"refusal"`
			ToolCalls []json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

// Compose makes an answer of our own in the documented wire shape: one chunk
// for each piece of text. It is not a recording of any provider.
func Compose(id, model string, pieces ...string) Answer {
	head := fmt.Sprintf(`"id":%q,"object":"chat.completion.chunk","created":1767225600,"model":%q`, id, model)
	event := func(choices, usage string) string {
		return fmt.Sprintf("data: {%s,\"choices\":[%s],\"usage\":%s}\n\n", head, choices, usage)
	}
	body := event(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "null")
	for _, piece := range pieces {
		text, err := json.Marshal(piece)
		if err != nil {
			panic("recorded: text is always JSON: " + err.Error())
		}
		body += event(`{"index":0,"delta":{"content":`+string(text)+`},"finish_reason":null}`, "null")
	}
	body += event(`{"index":0,"delta":{},"finish_reason":"stop"}`, "null")
	body += event("", fmt.Sprintf(`{"prompt_tokens":24,"completion_tokens":%d,"total_tokens":%d}`, len(pieces), 24+len(pieces)))
	body += "data: [DONE]\n\n"
	a, err := Parse([]byte(body))
	if err != nil {
		panic("recorded: our own answer: " + err.Error())
	}
	return a
}

// Load reads a recording: the body of a streamed answer, byte for byte.
func Load(path string) (Answer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Answer{}, fmt.Errorf("recorded: %w", err)
	}
	a, err := Parse(b)
	if err != nil {
		return Answer{}, fmt.Errorf("recorded: %s: %w", path, err)
	}
	return a, nil
}

// ErrUnsuitable is what the error of a recording wraps that is no text answer
// with an end.
var ErrUnsuitable = errors.New("not a streamed Chat Completions answer of plain text that ends with [DONE]")

// Parse takes a recorded body apart. What it answers to a look-up is made of
// choice 0: its text, its finish reason, the usage.
func Parse(body []byte) (Answer, error) {
	var a Answer
	a.whole = completion{Object: "chat.completion", Choices: []choice{{Message: message{Role: "assistant"}}}}
	for _, frame := range strings.SplitAfter(strings.ReplaceAll(string(body), "\r\n", "\n"), "\n\n") {
		if frame != "" {
			a.Frames = append(a.Frames, frame)
		}
	}
	done := false
	var parser sse.Parser
	var wrong error
	err := parser.Write(append(bytes.Clone(body), "\n\n"...), func(e sse.Event) {
		data := bytes.TrimSpace(e.Data)
		switch {
		case len(data) == 0:
		case string(data) == "[DONE]":
			done = true
		default:
			wrong = errors.Join(wrong, a.add(data))
		}
	})
	if err := errors.Join(err, wrong); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrUnsuitable, err)
	}
	if !done || a.Finish() == "" || a.Text() == "" {
		return Answer{}, fmt.Errorf("%w: finish reason %q, %d bytes of text, [DONE] %t", ErrUnsuitable, a.Finish(), len(a.Text()), done)
	}
	return a, nil
}

func (a *Answer) add(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return err
	}
	w := &a.whole
	w.ID, w.Created, w.Model = c.ID, c.Created, c.Model
	if len(c.Usage) > 0 && string(c.Usage) != "null" {
		w.Usage = c.Usage
	}
	for _, ch := range c.Choices {
		if len(ch.Delta.ToolCalls) > 0 || ch.Delta.Refusal != "" || ch.Index != 0 {
			return errors.New("it holds tool calls, a refusal or a second choice")
		}
		w.Choices[0].Message.Content += ch.Delta.Content
		if ch.FinishReason != "" {
			w.Choices[0].FinishReason = ch.FinishReason
		}
	}
	return nil
}

// Text is the answer's text.
func (a Answer) Text() string { return a.whole.Choices[0].Message.Content }

// Finish is its native finish reason.
func (a Answer) Finish() string { return a.whole.Choices[0].FinishReason }

// Middle is the number of frames after which about half of the text was sent,
// and TextOf what these hold.
func (a Answer) Middle() int {
	for n := range a.Frames {
		if len(a.TextOf(n))*2 >= len(a.Text()) {
			return n
		}
	}
	return len(a.Frames)
}

// TextOf is the text in the first n frames.
func (a Answer) TextOf(n int) string {
	text, err := Text([]byte(strings.Join(a.Frames[:n], "")))
	if err != nil {
		return "" // Parse has read them
	}
	return text
}

// Text is the provisional text in the beginning of a body.
func Text(body []byte) (string, error) {
	part := Answer{whole: completion{Choices: []choice{{}}}}
	var parser sse.Parser
	var wrong error
	err := parser.Write(body, func(e sse.Event) {
		if data := bytes.TrimSpace(e.Data); len(data) > 0 && data[0] == '{' {
			wrong = errors.Join(wrong, part.add(data))
		}
	})
	return part.Text(), errors.Join(err, wrong)
}
