package sdk

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestProviderInOneFile runs the provider that the README shows: it serves
// whole turns as soon as it is connected, and no longer once it has left.
func TestProviderInOneFile(t *testing.T) {
	t.Parallel()
	stock(t, Node)
	s := serve(t, "")
	c := dial(t, s)
	loud := []string{"--provider", "parrot", "--model", "loud"}

	end, _ := turn(t, s, "hello", loud...)
	if end.Outcome != "error" || !strings.Contains(string(end.Error), "provider_not_found") {
		t.Errorf("before it connects: %s %s", end.Outcome, end.Error)
	}
	p := example(t, Node, "provider.mjs", s.Ready.Bus)
	served(t, c, "provider::parrot::stream", true)
	end, events := turn(t, s, "what time is it", loud...)
	if end.Outcome != "ended" || len(results(t, events)) != 1 {
		t.Errorf("a turn with a call: %s %s, %s", end.Outcome, end.Error, events)
	}
	var said strings.Builder
	for _, e := range events {
		said.Write(e)
	}
	for _, want := range []string{`"delta"`, `UNIX_MS`, `"usage"`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the events hold no %s: %s", want, said.String())
		}
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the provider ends with %v", err)
	}
	served(t, c, "provider::parrot::stream", false)
	end, _ = turn(t, s, "hello", loud...)
	if end.Outcome != "error" || !strings.Contains(string(end.Error), "provider_not_found") {
		t.Errorf("after it left: %s %s", end.Outcome, end.Error)
	}
}

// TestReadmeShowsTheProvider holds the README against the file that
// TestProviderInOneFile runs.
func TestReadmeShowsTheProvider(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := Files.ReadFile("node/provider.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```js\n"+string(file)+"```\n") {
		t.Error("the README does not show engine/sdk/node/provider.mjs as it is")
	}
	if n := strings.Count(string(file), "\n"); n > 60 {
		t.Errorf("the provider has %d lines", n)
	}
}
