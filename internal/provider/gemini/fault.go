package gemini

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/internal/provider/httpwire"
	"github.com/loopd/loopd/loop"
)

// fault is an error object that the server sent.
type fault struct {
	code   string        // its status, INVALID_ARGUMENT for example: short, never empty
	status int           // the HTTP status that it names, 0 = none
	wait   time.Duration // how long to wait before another try, 0 = it does not say
}

func readFault(v jsontext.Value) *fault {
	var e struct {
		Code    jsontext.Value   `json:"code"`
		Status  jsontext.Value   `json:"status"`
		Details []jsontext.Value `json:"details"`
	}
	f := &fault{code: "provider_error"}
	if json.Unmarshal(v, &e) != nil {
		return f
	}
	if n, err := strconv.Atoi(string(e.Code)); err == nil && n >= 400 && n <= 599 {
		f.status, f.code = n, "error_"+strconv.Itoa(n)
	}
	var status string
	if e.Status.Kind() == '"' && json.Unmarshal(e.Status, &status) == nil {
		if code := httpwire.Code(status); code != "" {
			f.code = code
		}
	}
	for _, d := range e.Details {
		f.wait = max(f.wait, retryDelay(d))
	}
	return f
}

// retryDelay is the delay of a google.rpc.RetryInfo, 0 for any other detail.
func retryDelay(v jsontext.Value) time.Duration {
	var d struct {
		Type  string `json:"@type"`
		Delay string `json:"retryDelay"`
	}
	if json.Unmarshal(v, &d) != nil || !strings.HasSuffix(d.Type, "google.rpc.RetryInfo") {
		return 0
	}
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(d.Delay, "s"), 64)
	const most = 24 * 60 * 60
	if err != nil || math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, most) * float64(time.Second))
}

// refused judges an answer that is not 2xx.
func refused(res httpwire.Result) loop.Outcome {
	f := bodyFault(res.ErrorBody)
	if f == nil {
		return res.Outcome(httpwire.Refusal{})
	}
	if f.wait > 0 && res.Header != nil && res.Header.Get("Retry-After") == "" {
		res.Header = res.Header.Clone()
		res.Header.Set("Retry-After", strconv.FormatFloat(f.wait.Seconds(), 'f', -1, 64))
	}
	return res.Outcome(httpwire.Refusal{Code: f.code})
}

// bodyFault reads an error's body, or the list of one error that a stream
// without server-sent events sends; nil if it is not an error of this protocol
// (a proxy's page, for example).
func bodyFault(body []byte) *fault {
	var one frame
	if json.Unmarshal(body, &one) != nil {
		var list []frame
		if json.Unmarshal(body, &list) != nil || len(list) != 1 {
			return nil
		}
		one = list[0]
	}
	if empty(one.Error) {
		return nil
	}
	return readFault(one.Error)
}

// beforeOutput judges an error that came instead of an answer.
func (f *fault) beforeOutput() loop.Outcome {
	const saved = "read the provider's message in the operation's saved frames"
	switch {
	case f.status == 0:
		return loop.Failure{Dispatch: event.DispatchRan, Code: f.code, NextAction: saved}
	case httpwire.StatusVerdict(f.status, false) == httpwire.VerdictRejected:
		return loop.Failure{Dispatch: event.DispatchRejected, Code: f.code, NextAction: saved + ", and correct the request or the settings"}
	case f.status == 504:
		return loop.Uncertain{Reason: event.UnknownTimeout, Detail: "error instead of an answer: " + f.code}
	}
	return loop.Uncertain{Reason: event.UnknownTransport, Detail: "error instead of an answer: " + f.code}
}
