// Command harness runs the agent harness on one machine and is its client.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], system()))
}
