package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// page tries to reach a running dev from another origin, in every way a page
// has, and reports what came of it.
const page = `<!doctype html><script>
const tries = {
  socket: () => new Promise(r => {
    const ws = new WebSocket(%[1]q);
    ws.onopen = () => { ws.send(JSON.stringify({type:"invokefunction",invocation_id:crypto.randomUUID(),function_id:"state::list_groups",data:{}})); };
    ws.onmessage = m => r("reached: " + m.data);
    ws.onclose = e => r("refused " + e.code);
  }),
  otel: () => new Promise(r => { const ws = new WebSocket(%[1]q + "otel"); ws.onopen = () => r("reached"); ws.onclose = e => r("refused " + e.code); }),
  fetch: () => fetch(%[2]q).then(x => x.text()).then(t => "reached: " + t, e => "refused"),
};
(async () => {
  const out = [];
  for (const [name, f] of Object.entries(tries)) out.push(name + " " + await f());
  await fetch("/result", {method: "POST", body: out.join("\n")});
})();
</script>`

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("needs Chromium, which is not installed: a page of another origin is not tried")
	return ""
}

func TestPageOfAnotherOriginCannotReachTheBus(t *testing.T) {
	browser := chromium(t)
	s := startDev(t, t.TempDir())
	result := make(chan string, 1)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/result" {
			fmt.Fprintf(w, page, s.ready.Bus, strings.Replace(s.ready.Bus, "ws://", "http://", 1))
			return
		}
		body := make([]byte, 4096)
		n, _ := r.Body.Read(body)
		result <- string(body[:n])
	}))
	defer site.Close()
	cmd := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--remote-debugging-port=0", site.URL)
	log := &buffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Kill)
		_ = cmd.Wait()
	}()
	select {
	case got := <-result:
		for _, l := range strings.Split(got, "\n") {
			if !strings.Contains(l, "refused") {
				t.Errorf("the page reached the bus: %s", l)
			}
		}
	case <-time.After(90 * time.Second):
		t.Fatalf("the page never reported\n%s", log)
	}
	if strings.Count(s.log.String(), "connection refused") == 0 {
		t.Errorf("the refusal was not logged: %s", s.log)
	}
	s.want(exitDone, "turn", "hello") // the server is unharmed
}
