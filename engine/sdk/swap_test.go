package sdk

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/iii-aws/harness/engine/bus"
)

// TestSwapUnderAHundredTurns replaces demo::time with a stock worker's and gives
// it back, again and again, under a hundred turns that call it. Each call is
// served by one side, both sides serve some, and no turn fails.
func TestSwapUnderAHundredTurns(t *testing.T) {
	pair(t, func(t *testing.T, l Language, s *Server) {
		const turns, parallel = 100, 4
		w := attach(t, l, s, "swap")
		c := dial(t, s)

		work := make(chan int)
		var mu sync.Mutex
		served := map[string]int{}
		calls := map[int]int{} // of the worker, by the number that it gave
		var wg sync.WaitGroup
		for range parallel {
			wg.Go(func() {
				for range work {
					session := runTurn(t, c, "what time is it")
					for _, r := range callResults(t, c, session) {
						mu.Lock()
						switch {
						case r.Call > 0:
							served["worker"]++
							calls[r.Call]++
						case r.UnixMS > 0:
							served["bus"]++
						default:
							served[r.text]++
						}
						mu.Unlock()
					}
				}
			})
		}
		for i := range turns {
			switch i % 20 {
			case 5:
				w.function("demo::time", "number")
			case 15:
				w.do("unregister", args{"id": "demo::time"})
			}
			work <- i
		}
		close(work)
		wg.Wait()
		if served["worker"]+served["bus"] != turns || served["worker"] == 0 || served["bus"] == 0 {
			t.Errorf("%d turns, calls served: %v", turns, served)
		}
		for n, times := range calls {
			if times != 1 {
				t.Errorf("call %d of the worker answered %d turns", n, times)
			}
		}
	})
}

// timed is the result of demo::time, of whichever side.
type timed struct {
	Call   int   `json:"call"`
	UnixMS int64 `json:"unix_ms"`
	text   string
}

// runTurn runs one turn of the scripted model to its end, which must be a good
// one, and gives its session.
func runTurn(t *testing.T, c bus.Invoker, text string) string {
	var session struct {
		ID string `json:"session_id"`
	}
	invoke(t, c, "session-tree::create", `{}`, &session)
	invoke(t, c, "run::start", `{"session_id":`+quote(session.ID)+`,"message_id":"m","provider":"scripted","model":"scripted","messages":[{"role":"user","content":[{"type":"text","text":`+quote(text)+`}],"timestamp":1780000000000}]}`, nil)
	ctx := within(t)
	for {
		var view struct {
			State string          `json:"state"`
			Error json.RawMessage `json:"error"`
		}
		invoke(t, c, "turn::get_state", `{"session_id":`+quote(session.ID)+`}`, &view)
		switch {
		case view.State == "stopped" && (len(view.Error) == 0 || string(view.Error) == "null"):
			return session.ID
		case view.State == "stopped", view.State == "failed", ctx.Err() != nil:
			t.Errorf("the turn of %s ends in %s: %s", session.ID, view.State, view.Error)
			return session.ID
		}
	}
}

// callResults are the results in a session's transcript. What a turn has told
// last may still be on its way there when the turn has ended.
func callResults(t *testing.T, c bus.Invoker, session string) []timed {
	ctx := within(t)
	for {
		all, over := readResults(t, c, session)
		if over || ctx.Err() != nil {
			return all
		}
	}
}

// readResults reads a transcript; over reports whether it has its last message.
func readResults(t *testing.T, c bus.Invoker, session string) (out []timed, over bool) {
	var transcript struct {
		Messages []struct {
			Message struct {
				Role    string `json:"role"`
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"message"`
		} `json:"messages"`
	}
	invoke(t, c, "session-tree::messages", `{"session_id":`+quote(session)+`}`, &transcript)
	for _, m := range transcript.Messages {
		over = m.Message.Role == "assistant" && len(out) > 0
		if m.Message.Role != "function_result" {
			continue
		}
		for _, block := range m.Message.Content {
			r := timed{text: block.Text}
			if err := json.Unmarshal([]byte(block.Text), &r); err != nil {
				t.Errorf("a call gave %q: %v", block.Text, err)
			}
			out = append(out, r)
		}
	}
	return out, over
}
