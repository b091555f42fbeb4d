package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	natsgo "github.com/nats-io/nats.go"

	"github.com/loopd/loopd/internal/natsembed"
	"github.com/loopd/loopd/internal/tool/nats"
	"github.com/loopd/loopd/loop"
)

// orders is a tool that writes. It remembers what it answered by invocation id:
// a call that comes again is not run again, and can be looked up. A real one
// keeps its memory where it keeps its orders.
type orders struct {
	mu    sync.Mutex
	saved map[string]map[string]any
	count int
}

func (o *orders) call(m *natsgo.Msg) {
	var call struct {
		InvocationID string `json:"invocation_id"`
		Arguments    struct {
			Item string `json:"item"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(m.Data, &call); err != nil {
		reply(m, map[string]any{"error": err.Error()})
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	answer, again := o.saved[call.InvocationID]
	if !again {
		o.count++
		answer = map[string]any{"result": fmt.Sprintf("order %d: %s", o.count, call.Arguments.Item)}
		o.saved[call.InvocationID] = answer
	}
	reply(m, answer)
}

func (o *orders) inspect(m *natsgo.Msg) {
	o.mu.Lock()
	defer o.mu.Unlock()
	answer, ok := o.saved[m.Header.Get("Loop-Invocation-Id")]
	if !ok {
		reply(m, map[string]any{"observed": "missing"})
		return
	}
	reply(m, map[string]any{"observed": "complete", "result": answer["result"]})
}

func reply(m *natsgo.Msg, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = m.Respond(b)
	}
	if err != nil {
		fmt.Println("reply:", err)
	}
}

func Example() {
	url, stop := server()
	defer stop()

	// The process that serves the tool.
	worker, err := natsgo.Connect(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer worker.Close()
	o := &orders{saved: map[string]map[string]any{}}
	_, err1 := worker.QueueSubscribe("loop.tool.order", "order", o.call)
	_, err2 := worker.QueueSubscribe("loop.tool.order.inspect", "order", o.inspect)
	fmt.Println(err1, err2, worker.Flush())

	// The daemon.
	nc, err := natsgo.Connect(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	tools, err := nats.New(nc, nats.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := loop.ToolRequest{SessionID: "s", InvocationID: "v1", ToolCallID: "c1", Tool: "order", Arguments: `{"item":"bread"}`}
	fmt.Println(tools.Call(context.Background(), call).Result)
	fmt.Println(tools.Call(context.Background(), call).Result)
	fmt.Println(tools.Inspect(context.Background(), call).Observed)
	call.Tool = "lookup"
	fmt.Println(tools.Call(context.Background(), call).Result)
	// Output:
	// <nil> <nil> <nil>
	// order 1: bread
	// order 1: bread
	// complete
	// tool lookup was not run: no process serves it; start one that subscribes to loop.tool.lookup
}

func server() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	s, err := natsembed.Start(natsembed.Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	return s.ClientURL(), func() {
		s.Shutdown()
		_ = os.RemoveAll(dir)
	}
}
