package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/protocol"
	"github.com/iii-aws/harness/internal/agent"
)

const chatHelp = `type a message and press return; while a turn runs, what you type steers it
  /approve CALL [reason]   let a waiting call run
  /deny CALL [reason]      refuse it
  /abort                   end the running turn
  /quit                    leave; a running turn goes on`

func (a *app) chatCommand() *cobra.Command {
	var fl turnFlags
	c := &cobra.Command{Use: "chat", Short: "Talk to the harness", Args: exactly(), RunE: func(c *cobra.Command, _ []string) error {
		if err := fl.check(c); err != nil {
			return err
		}
		return a.chat(c.Context(), fl)
	}}
	fl.register(c)
	return c
}

// talk is one conversation.
type talk struct {
	*app
	flags   turnFlags
	f       *follower
	session string
	run     *tracker // nil between runs
	screen  *screen
	queued  []string // lines that wait for the run to end
	steered []string // ids of what was typed while the run worked
	eof     bool
}

func (a *app) chat(ctx context.Context, fl turnFlags) error {
	f, err := a.follow(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	session, err := a.openSession(ctx, f, fl.session)
	if err != nil {
		return err
	}
	if _, err := f.start(ctx, session, nil); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "session %s; /help lists the commands\n", session)
	t := &talk{app: a, flags: fl, f: f, session: session, screen: &screen{out: a.stdout, side: a.stderr}}
	return t.loop(ctx, a.readLines(ctx))
}

// readLines reads stdin on a goroutine that ends with it or with the program.
func (a *app) readLines(ctx context.Context) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		sc := bufio.NewScanner(a.stdin)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			select {
			case out <- sc.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (t *talk) loop(ctx context.Context, lines <-chan string) error {
	for {
		if t.run == nil && len(t.queued) > 0 {
			text := t.queued[0]
			t.queued = t.queued[1:]
			if err := t.line(ctx, text); err != nil {
				return err
			}
			continue
		}
		if t.run == nil && t.eof {
			return nil
		}
		select {
		case text, ok := <-lines:
			if !ok {
				t.eof, lines = true, nil
				continue
			}
			// A script's lines are turns of their own; a person's steer.
			if t.run != nil && !t.terminal && !strings.HasPrefix(strings.TrimSpace(text), "/") {
				t.queued = append(t.queued, text)
				continue
			}
			if err := t.line(ctx, text); err != nil {
				if errors.Is(err, errQuit) {
					return nil
				}
				return err
			}
		case l := <-t.f.lines:
			if err := t.event(ctx, l); err != nil {
				return err
			}
		case err := <-t.f.failed:
			return err
		case <-t.f.conn.Done():
			return t.f.conn.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// event shows an event. Without a terminal nobody can answer a parked call:
// the command ends.
func (t *talk) event(ctx context.Context, l line) error {
	if t.run == nil {
		t.run = newTracker(t.session, "")
	}
	over, err := t.show(t.screen, t.run, l)
	if err != nil || !over {
		return err
	}
	if err := t.screen.newline(); err != nil {
		return err
	}
	sum := t.run.sum
	if sum.Outcome == outcomeParked && t.terminal {
		diffs, err := t.diffs(ctx)
		for _, w := range sum.AwaitingApproval {
			fmt.Fprintf(t.stderr, "waiting for you: %s %s\n%s  /approve %s   or   /deny %s [reason]\n",
				w.FunctionID, t.decisionArgs(t.session, w.Args), diffs[w.FunctionCallID], w.FunctionCallID, w.FunctionCallID)
		}
		if err != nil && bus.Code(err) != protocol.CodeForbidden { // whoever may not decide sees no details
			t.report(ctx, err)
		}
		return nil
	}
	err = t.conclude(t.run)
	t.run = nil
	if lerr := t.late(ctx); lerr != nil {
		return lerr
	}
	if t.terminal && err != nil {
		t.report(context.Background(), err)
		return nil
	}
	return err
}

// diffs is what the calls that wait would change, by call.
func (t *talk) diffs(ctx context.Context) (map[string]string, error) {
	var page struct {
		Approvals []agent.ApprovalRequest `json:"approvals"`
	}
	if err := call(ctx, t.f.conn, "approval::list", map[string]string{"session_id": t.session}, &page); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range page.Approvals {
		_, out[r.FunctionCallID] = splitDiff(r.ArgsExcerpt)
	}
	return out, nil
}

var errQuit = errors.New("quit")

func (t *talk) line(ctx context.Context, text string) error {
	text = strings.TrimSpace(text)
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case "":
		return nil
	case "/help":
		fmt.Fprintln(t.stderr, chatHelp)
		return nil
	case "/quit", "/exit":
		return errQuit
	case "/abort":
		return call(ctx, t.f.conn, "run::abort", map[string]string{"session_id": t.session}, nil)
	case "/approve":
		return t.decide(ctx, agent.DecisionAllow, rest)
	case "/deny":
		return t.decide(ctx, agent.DecisionDeny, rest)
	}
	if strings.HasPrefix(verb, "/") {
		fmt.Fprintf(t.stderr, "unknown command %s\n%s\n", verb, chatHelp)
		return nil
	}
	if t.run != nil {
		return t.steer(ctx, text)
	}
	fl := t.flags
	st, err := t.startRun(ctx, t.f, fl, t.session, text)
	if err != nil {
		return err
	}
	if !st.Started {
		return t.busy(st, t.session)
	}
	t.run = newTracker(t.session, st.MessageID)
	return nil
}

// steer gives a message to the running turn.
func (t *talk) steer(ctx context.Context, text string) error {
	var ans struct {
		ID string `json:"id"`
	}
	err := call(ctx, t.f.conn, "session-inbox::push", map[string]any{
		"name": "steering", "session_id": t.session, "item": agent.User(text, clock.Millis(t.clock.Now())),
	}, &ans)
	t.steered = append(t.steered, ans.ID)
	return err
}

// late takes back what the turn ended without reading: it becomes a turn of
// its own.
func (t *talk) late(ctx context.Context) error {
	if len(t.steered) == 0 {
		return nil
	}
	ids := t.steered
	t.steered = nil
	var left struct {
		Items []agent.Message `json:"items"`
	}
	if err := call(ctx, t.f.conn, "session-inbox::drain", map[string]any{"name": "steering", "session_id": t.session, "ids": ids}, &left); err != nil {
		if bus.Code(err) != "FORBIDDEN" {
			return err
		}
		fmt.Fprintln(t.stderr, "what you typed last may have come too late for this turn; the next one reads it")
		return nil
	}
	for _, m := range left.Items {
		t.queued = append(t.queued, messageText(m))
	}
	return nil
}

func (t *talk) decide(ctx context.Context, decision, rest string) error {
	id, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if id == "" && t.run != nil && len(t.run.sum.AwaitingApproval) == 1 {
		id = t.run.sum.AwaitingApproval[0].FunctionCallID
	}
	req := map[string]any{"session_id": t.session, "function_call_id": id, "decision": decision}
	if reason != "" {
		req["reason"] = reason
	}
	var ans decisionAnswer
	if err := call(ctx, t.f.conn, "approval::resolve", req, &ans); err != nil {
		return err
	}
	if !ans.OK {
		t.report(ctx, refused(ans, t.session))
	}
	return nil
}
