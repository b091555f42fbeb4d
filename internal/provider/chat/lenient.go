package chat

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
)

// empty reports whether a field is missing, null or "".
func empty(v jsontext.Value) bool {
	return len(v) == 0 || v.Kind() == 'n' || string(v) == `""`
}

// lenientString is the string in v, "" for anything else.
func lenientString(v jsontext.Value) string {
	if len(v) == 0 || v.Kind() != '"' {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// contentText is the text of a content field: a string, null, or an array of
// parts. false = there is something else in it.
func contentText(v jsontext.Value) (string, bool) {
	if empty(v) {
		return "", true
	}
	switch v.Kind() {
	case '"':
		return lenientString(v), true
	case '[':
		return partsText(v)
	}
	return "", false
}

func partsText(v jsontext.Value) (string, bool) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(v, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), true
}

// readUsage reads a usage object; nil if it does not say how much was put out.
func readUsage(v jsontext.Value) *event.Usage {
	if empty(v) || v.Kind() != '{' {
		return nil
	}
	var u struct {
		Prompt     int64          `json:"prompt_tokens"`
		Completion *int64         `json:"completion_tokens"`
		Cost       jsontext.Value `json:"cost"`
		Details    struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if json.Unmarshal(v, &u) != nil || u.Completion == nil || min(u.Prompt, *u.Completion, u.Details.Reasoning) < 0 {
		return nil
	}
	usage := &event.Usage{Input: u.Prompt, Output: *u.Completion, Reasoning: u.Details.Reasoning}
	if cost, err := strconv.ParseFloat(string(u.Cost), 64); err == nil && cost > 0 {
		usage.Cost = cost
	}
	return usage
}

// filterStruck reports whether a content filter's annotation says so.
func filterStruck(v jsontext.Value) bool {
	var categories map[string]jsontext.Value
	if empty(v) || json.Unmarshal(v, &categories) != nil {
		return false
	}
	for _, c := range categories {
		var verdict struct {
			Filtered bool `json:"filtered"`
		}
		if json.Unmarshal(c, &verdict) == nil && verdict.Filtered {
			return true
		}
	}
	return false
}
