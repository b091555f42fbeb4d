// Package recorded is a small model server for the demo and for tests: it
// plays recorded answers in the wire format of Chat Completions, frame by
// frame, and keeps what it generated for a later look-up.
//
// Invariants
//
//  1. It goes on generating when the client is gone, as a provider does: what
//     it keeps does not depend on who listens.
//  2. It counts every request that arrived, under the operation id in its
//     metadata.
//  3. A look-up reads: it generates nothing, and answers with the original once
//     that is whole.
//
// It knows no model, checks no key, and listens where its caller lets it.
package recorded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config is what a server plays.
type Config struct {
	// Answers are given in the order in which requests arrive; the last one
	// repeats. At least one is required.
	Answers []Answer
	// Pace is the pause before each frame; default none.
	Pace time.Duration
	// Hold says after how many frames the answer to the n-th request, from 1,
	// waits for Release; 0 is before the header, negative is not at all. Nil:
	// nothing waits.
	Hold func(n int) int
}

// Server is an http.Handler for /v1/chat/completions.
type Server struct {
	cfg    Config
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	requests []*request
	lookups  int
	changed  chan struct{} // closed and renewed with each request
}

// Request is one generation that was asked for.
type Request struct {
	OperationID string
	Body        []byte
}

type request struct {
	Request
	answer  Answer
	release chan struct{} // closed by Release
	held    chan struct{} // closed when the answer waits for it
	kept    chan struct{} // closed when the answer is whole and can be looked up
}

// New makes a server. Close ends what it still generates.
func New(cfg Config) *Server {
	if len(cfg.Answers) == 0 {
		panic("recorded: a server needs at least one answer")
	}
	return &Server{cfg: cfg, closed: make(chan struct{}), changed: make(chan struct{})}
}

// Close ends every answer at the frame that it has come to.
func (s *Server) Close() { s.once.Do(func() { close(s.closed) }) }

// Requests are the generations asked for so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, r := range s.requests {
		out = append(out, r.Request)
	}
	return out
}

// Lookups is how often an original was looked up.
func (s *Server) Lookups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookups
}

// Release lets the answer to the n-th request go on; it may come before the
// request does.
func (s *Server) Release(n int) {
	go func() {
		if r := s.wait(n); r != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			select {
			case <-r.release:
			default:
				close(r.release)
			}
		}
	}()
}

// Held is closed when the answer to the n-th request waits for Release, or
// never will because the server is closed.
func (s *Server) Held(n int) <-chan struct{} {
	return s.signal(n, func(r *request) chan struct{} { return r.held })
}

// Kept is closed when the answer to the n-th request is whole and can be looked
// up, or never will.
func (s *Server) Kept(n int) <-chan struct{} {
	return s.signal(n, func(r *request) chan struct{} { return r.kept })
}

func (s *Server) signal(n int, which func(*request) chan struct{}) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		defer close(out)
		if r := s.wait(n); r != nil {
			select {
			case <-which(r):
			case <-s.closed:
			}
		}
	}()
	return out
}

// wait is the n-th request once it has arrived, nil if the server closes first.
func (s *Server) wait(n int) *request {
	for {
		s.mu.Lock()
		changed := s.changed
		var r *request
		if len(s.requests) >= n {
			r = s.requests[n-1]
		}
		s.mu.Unlock()
		if r != nil {
			return r
		}
		select {
		case <-changed:
		case <-s.closed:
			return nil
		}
	}
}

// ServeHTTP answers POST with a generation and GET with a look-up.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		http.Error(w, `{"error":{"message":"unknown path","code":"not_found"}}`, http.StatusNotFound)
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.generate(w, r)
	case http.MethodGet:
		s.lookUp(w, r)
	default:
		http.Error(w, `{"error":{"message":"use GET or POST","code":"method_not_allowed"}}`, http.StatusMethodNotAllowed)
	}
}

// maxBody bounds a request's body.
const maxBody = 16 << 20

func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	var body json.RawMessage
	var asked struct {
		Metadata map[string]string `json:"metadata"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body)
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		http.Error(w, `{"error":{"message":"the body is no JSON object","code":"invalid_request"}}`, http.StatusBadRequest)
		return
	}
	n, job := s.arrive(Request{OperationID: asked.Metadata["op"], Body: body})
	hold := -1
	if s.cfg.Hold != nil {
		hold = s.cfg.Hold(n)
	}
	out := http.NewResponseController(w)
	for i, frame := range job.answer.Frames {
		if i == hold && !s.hold(job) || !s.pause() {
			return
		}
		if i == 0 {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = w.Write([]byte(frame)) // the client may be gone: the answer is generated all the same
		_ = out.Flush()
	}
	close(job.kept)
}

func (s *Server) arrive(r Request) (int, *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.requests) + 1
	job := &request{
		Request: r, answer: s.cfg.Answers[min(n, len(s.cfg.Answers))-1],
		release: make(chan struct{}), held: make(chan struct{}), kept: make(chan struct{}),
	}
	s.requests = append(s.requests, job)
	close(s.changed)
	s.changed = make(chan struct{})
	return n, job
}

func (s *Server) hold(job *request) bool {
	close(job.held)
	select {
	case <-job.release:
		return true
	case <-s.closed:
		return false
	}
}

func (s *Server) pause() bool {
	timer := time.NewTimer(s.cfg.Pace)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closed:
		return false
	}
}

func (s *Server) lookUp(w http.ResponseWriter, r *http.Request) {
	operation := r.URL.Query().Get("metadata[op]")
	found := []completion{}
	s.mu.Lock()
	s.lookups++
	for _, job := range s.requests {
		select {
		case <-job.kept:
			if job.OperationID == operation {
				whole := job.answer.whole
				whole.Metadata = map[string]string{"op": operation}
				found = append(found, whole)
			}
		default:
		}
	}
	s.mu.Unlock()
	b, err := json.Marshal(struct {
		Object string       `json:"object"`
		Data   []completion `json:"data"`
	}{"list", found})
	if err != nil {
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
