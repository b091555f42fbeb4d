package host_test

import (
	"context"
	"fmt"
	"time"

	"github.com/loopd/loopd/event"
	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/host"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, err := openHouse(ctx, says("Hello yourself.")) // a server and an owner; yours is `loopd serve`
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.close()

	h, err := host.Dial(ctx, eventlog.Config{URL: server.url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	receipt, err := h.Submit(ctx, "s1", event.Input{Kind: event.KindUser, Text: "Hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := h.Await(ctx, "s1", receipt.InputID)
	if err != nil {
		fmt.Println(err)
		return
	}
	switch r := result.(type) {
	case host.Finished:
		fmt.Println("answer:", r.Fact.Text)
	case host.Rejected:
		fmt.Println("not admitted:", r.Fact.Reason, r.Fact.Hint)
	default:
		fmt.Println("no answer:", r.Decided().Type)
	}
	// Output: answer: Hello yourself.
}
