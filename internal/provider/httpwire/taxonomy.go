package httpwire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/loop"
)

// Verdict is what an exchange's failure proves about the operation.
type Verdict int

// The verdicts. A status that is not on a list is VerdictUncertain.
const (
	VerdictUncertain Verdict = iota // it may have run
	VerdictRejected                 // it certainly did not run
)

// StatusVerdict judges an HTTP status that is not 2xx. upstream says that the
// answer passed on another server's refusal: then a 429 proves nothing.
func StatusVerdict(status int, upstream bool) Verdict {
	switch status {
	case 400, 401, 402, 403, 404, 405, 413, 415, 422:
		return VerdictRejected
	case http.StatusTooManyRequests:
		if !upstream {
			return VerdictRejected
		}
	}
	if status/100 == 3 {
		return VerdictRejected // a redirect that nobody followed
	}
	return VerdictUncertain
}

// Refusal is what an adapter read of an answer's error body.
type Refusal struct {
	Code     string // the provider's, made short by [Code]; "" = none
	Upstream bool   // it reports another server's refusal
}

// Outcome judges an exchange that gave no 2xx answer.
func (r Result) Outcome(refusal Refusal) loop.Outcome {
	if !r.Sent {
		return r.notDispatched()
	}
	if r.Status == 0 {
		return Uncertain(r.End, fmt.Sprintf("no answer: %v", r.Err))
	}
	code := refusal.Code
	if code == "" {
		code = statusCode(r.Status)
	}
	if r.End == EndJournal {
		return Uncertain(r.End, fmt.Sprintf("http %d, code %s: %v", r.Status, code, r.Err))
	}
	if StatusVerdict(r.Status, refusal.Upstream) == VerdictRejected {
		return loop.Failure{
			Dispatch: event.DispatchRejected, Code: code, HTTPStatus: r.Status,
			NextAction: nextAction(r.Status, r.Header, time.Now()),
		}
	}
	return r.uncertainStatus(code)
}

func (r Result) uncertainStatus(code string) loop.Outcome {
	u := loop.Uncertain{Reason: event.UnknownTransport, Detail: fmt.Sprintf("http %d, code %s", r.Status, code)}
	switch r.Status {
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, 524:
		u.Reason = event.UnknownTimeout
	case http.StatusServiceUnavailable, 529:
		u.Detail += ", likely not executed"
	}
	return u
}

// Uncertain is an exchange that ended without the protocol's terminal frame.
func Uncertain(end End, detail string) loop.Uncertain {
	reason := event.UnknownTransport
	switch end {
	case EndClean, EndUnframed, EndTooLarge, EndDrained:
		reason = event.UnknownNoTerminal
	case EndTimeout:
		reason = event.UnknownTimeout
	case EndCancelled:
		reason = event.UnknownCancelled
	}
	return loop.Uncertain{Reason: reason, Detail: detail}
}

func (r Result) notDispatched() loop.Outcome {
	f := loop.Failure{
		Dispatch: event.DispatchNotDispatched, Code: "connect_failed",
		NextAction: "check that the server runs and that its address is right; then send the input again",
	}
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var netErr net.Error
	switch {
	case r.End == EndCancelled:
		f.Code, f.NextAction = "cancelled", "nothing was sent; send the input again if it is still wanted"
	case r.End == EndTimeout:
		f.Code = "connect_timeout"
	case errors.As(r.Err, &dns):
		f.Code, f.NextAction = "dns_failed", "check the host name of the server's address and the name service"
	case errors.As(r.Err, &cert), errors.As(r.Err, &record), errors.As(r.Err, &unknown):
		f.Code, f.NextAction = "tls_failed", "check the server's certificate, and http or https in its address"
	case errors.As(r.Err, &netErr) && netErr.Timeout():
		f.Code = "connect_timeout"
	}
	return f
}

// Code makes a provider's code fit for the log: short, and no prose.
func Code(s string) string {
	const most = 64
	if s == "" || len(s) > most {
		return ""
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
		default:
			return ""
		}
	}
	return s
}

func statusCode(status int) string {
	if status/100 == 3 {
		return "redirect"
	}
	return "http_" + strconv.Itoa(status)
}

func nextAction(status int, h http.Header, now time.Time) string {
	const saved = "; the provider's message is in the operation's saved frames"
	switch status {
	case 401:
		return "check the API key" + saved
	case 402:
		return "check the account's credit" + saved
	case 403:
		return "check what the API key may use, and the provider's moderation" + saved
	case 404, 405:
		return "check the base URL and the model's name" + saved
	case 413:
		return "the request is too large: shorten the context" + saved
	case 429:
		if wait := RetryAfter(h, now); wait > 0 {
			return fmt.Sprintf("wait %s, then send the input again", wait)
		}
		return "wait for the rate limit or the quota, then send the input again" + saved
	}
	if status/100 == 3 {
		return "redirects are not followed: set the base URL to where the server sends"
	}
	return "correct the request or the settings" + saved
}

// RetryAfter is how long an answer asks to wait, 0 = it does not say:
// retry-after-ms, or retry-after in seconds or as an HTTP date.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	wait := time.Duration(0)
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		wait = time.Duration(min(ms, float64(most/time.Millisecond)) * float64(time.Millisecond))
	} else if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil && s > 0 {
		wait = time.Duration(min(s, most.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, most)).Round(time.Millisecond)
}

// Evidence is what of an answer's header is worth a line in the process's log.
func Evidence(h http.Header) string {
	var b strings.Builder
	for _, name := range []string{
		"Content-Type", "Content-Encoding", "X-Request-Id", "Request-Id", "X-Generation-Id",
		"Retry-After", "Retry-After-Ms", "Openai-Processing-Ms",
	} {
		if v := h.Get(name); v != "" {
			fmt.Fprintf(&b, " %s=%q", strings.ToLower(name), cut(v, 128))
		}
	}
	return strings.TrimSpace(b.String())
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
