package main

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/iii-aws/harness/engine/client"
)

func begin(t *testing.T, c *client.Client, session, text string) started {
	t.Helper()
	var st started
	err := call(t.Context(), c, "run::start", map[string]any{
		"session_id": session, "provider": "scripted", "model": "scripted-1",
		"messages": []any{map[string]any{"role": "user", "content": text, "timestamp": 1}},
	}, &st)
	if err != nil {
		t.Error(err)
	}
	return st
}

// TestAbortRightBehindTheStart: whenever it comes, the run ends, its words are
// in the transcript, and the session takes the next one.
func TestAbortRightBehindTheStart(t *testing.T) {
	t.Parallel()
	s := startDev(t, t.TempDir())
	c := dial(t, s)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			session := fmt.Sprintf("s%d", i)
			for range 5 {
				if st := begin(t, c, session, "what time is it"); !st.Started {
					t.Errorf("%s: %+v", session, st)
					return
				}
				if err := call(t.Context(), c, "run::abort", map[string]string{"session_id": session}, nil); err != nil {
					t.Error(err)
					return
				}
				for deadline := time.Now().Add(20 * time.Second); ; {
					var view struct{ State string }
					if err := call(t.Context(), c, "turn::get_state", map[string]string{"session_id": session}, &view); err != nil {
						t.Error(err)
						return
					}
					if view.State == "stopped" || view.State == "failed" {
						break
					}
					if time.Now().After(deadline) {
						t.Errorf("%s is %s for ever", session, view.State)
						return
					}
				}
			}
			// What a record owes is delivered behind its last write.
			users := 0
			for deadline := time.Now().Add(20 * time.Second); users != 5; {
				var path struct {
					Messages []struct{ Message struct{ Role string } }
				}
				if err := call(t.Context(), c, "session-tree::messages", map[string]string{"session_id": session}, &path); err != nil {
					t.Error(err)
					return
				}
				users = 0
				for _, m := range path.Messages {
					if m.Message.Role == "user" {
						users++
					}
				}
				if time.Now().After(deadline) {
					t.Errorf("%s has %d of its 5 user messages", session, users)
					return
				}
			}
		}()
	}
	wg.Wait()
}
