package client_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/client"
)

// A worker that serves one function to everybody on the bus.
func Example() {
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Options{URL: "ws://127.0.0.1:49134/", Name: "shouter"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	type request struct {
		Text string `json:"text"`
	}
	type response struct {
		Text string `json:"text"`
	}
	c.Handle("text::shout", bus.Typed(func(_ context.Context, _ *bus.Call, r request) (response, error) {
		return response{Text: strings.ToUpper(r.Text)}, nil
	}))
	fmt.Println("serving until the connection is closed for good")
	<-c.Done()
}
