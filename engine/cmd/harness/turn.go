package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider/scripted"
)

type turnFlags struct {
	session, messageID, provider, model, mode, system, thinking string
	maxTurns                                                    int64
	timeout                                                     time.Duration
	noWait                                                      bool
}

func (a *app) turnCommand() *cobra.Command {
	var fl turnFlags
	c := &cobra.Command{Use: "turn TEXT...|-", Short: "Run one turn and stream it", RunE: func(c *cobra.Command, args []string) error {
		text, err := a.prompt(c, args)
		if err != nil {
			return err
		}
		if err := fl.check(c); err != nil {
			return err
		}
		return a.turn(c.Context(), fl, text)
	}}
	f := c.Flags()
	fl.register(c)
	f.StringVar(&fl.messageID, "message-id", "", "idempotency key of this turn: sent twice it runs once")
	f.DurationVar(&fl.timeout, "timeout", 10*time.Minute, "how long to watch; the turn itself goes on")
	f.BoolVar(&fl.noWait, "no-wait", false, "return once the turn is accepted")
	return c
}

// register adds the flags that turn and chat share.
func (fl *turnFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&fl.session, "session", "", "the session to go on with (default: a new one)")
	f.StringVar(&fl.provider, "provider", "", "model provider (default: the server's)")
	f.StringVar(&fl.model, "model", "", "model (default: config default_model)")
	f.StringVar(&fl.mode, "mode", "", "plan, ask or agent")
	f.Int64Var(&fl.maxTurns, "max-turns", 0, "most model calls (default: no limit)")
	f.StringVar(&fl.system, "system", "", "system prompt instead of the built-in one")
	f.StringVar(&fl.thinking, "thinking", "", "off, minimal, low, medium, high or xhigh")
}

func (fl *turnFlags) check(c *cobra.Command) error {
	switch fl.mode {
	case "", "plan", "ask", "agent":
	default:
		return usagef("--mode is %q; allowed: plan, ask, agent", fl.mode)
	}
	switch fl.thinking {
	case "", "off", "minimal", "low", "medium", "high", "xhigh":
	default:
		return usagef("--thinking is %q; allowed: off, minimal, low, medium, high, xhigh", fl.thinking)
	}
	if c.Flags().Changed("max-turns") && fl.maxTurns < 1 {
		return usagef("--max-turns must be 1 or more")
	}
	if c.Flags().Changed("timeout") && fl.timeout <= 0 {
		return usagef("--timeout must be more than 0, such as 10m")
	}
	return nil
}

func (a *app) prompt(c *cobra.Command, args []string) (string, error) {
	text := strings.Join(args, " ")
	if len(args) == 1 && args[0] == "-" {
		b, err := io.ReadAll(io.LimitReader(a.stdin, maxStdin))
		if err != nil {
			return "", fmt.Errorf("read stdin: %w", err)
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		return "", usagef("TEXT is missing; usage: %s", c.UseLine())
	}
	return text, nil
}

// started is the answer of run::start.
type started struct {
	SessionID string `json:"session_id"`
	MessageID string `json:"message_id,omitempty"`
	Started   bool   `json:"started"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

func (a *app) turn(ctx context.Context, fl turnFlags, text string) error {
	watch, cancel := context.WithTimeout(ctx, fl.timeout)
	defer cancel()
	f, err := a.follow(watch)
	if err != nil {
		return err
	}
	defer f.close()
	session, err := a.openSession(watch, f, fl.session)
	if err != nil {
		return err
	}
	if !fl.noWait {
		if _, err := f.start(watch, session, nil); err != nil {
			return err
		}
	}
	st, err := a.startRun(watch, f, fl, session, text)
	if err != nil {
		return err
	}
	if fl.noWait {
		if !st.Started {
			return a.busy(st, session)
		}
		if a.json {
			return a.printJSON(st)
		}
		_, err := fmt.Fprintln(a.stdout, session)
		return err
	}
	if !st.Started {
		return a.busy(st, session)
	}
	if st.Duplicate {
		return a.duplicate(watch, f, st)
	}
	err = a.watch(watch, f, newTracker(session, st.MessageID))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &failure{code: "timeout", message: fmt.Sprintf("the turn is not over after %s; it goes on", fl.timeout), exit: exitFailed,
			hint: "harness events " + session + " --follow shows it; harness abort " + session + " ends it"}
	}
	if err != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintf(a.stderr, "\nthe turn goes on; harness abort %s ends it\n", session)
	}
	return err
}

// openSession makes a session, or names the given one as existing.
func (a *app) openSession(ctx context.Context, f *follower, id string) (string, error) {
	var out struct {
		SessionID string `json:"session_id"`
	}
	if id == "" {
		err := call(ctx, f.conn, "session-tree::create", struct{}{}, &out)
		return out.SessionID, err
	}
	err := call(ctx, f.conn, "session-tree::ensure", map[string]string{"session_id": id}, &out)
	return id, err
}

func (a *app) startRun(ctx context.Context, f *follower, fl turnFlags, session, text string) (started, error) {
	model, err := a.model(fl, f.dev)
	if err != nil {
		return started{}, err
	}
	id := fl.messageID
	if id == "" {
		id = a.ids.UUID()
	}
	req := map[string]any{
		"session_id": session, "message_id": id, "provider": fl.provider, "model": model,
		"messages": []agent.Message{agent.User(text, clock.Millis(a.clock.Now()))},
	}
	for key, v := range map[string]string{"mode": fl.mode, "system_prompt": fl.system, "thinking_level": fl.thinking} {
		if v != "" {
			req[key] = v
		}
	}
	if fl.maxTurns > 0 {
		req["max_turns"] = fl.maxTurns
	}
	var st started
	err = call(ctx, f.conn, "run::start", req, &st)
	return st, err
}

// model is the model to ask for: a flag, or the default of the provider that
// the server would take.
func (a *app) model(fl turnFlags, dev *ready) (string, error) {
	if fl.model != "" {
		return fl.model, nil
	}
	name := strings.ToLower(fl.provider)
	models := map[string]string{}
	if dev != nil {
		models = dev.Models
		if name == "" {
			name = dev.Provider
		}
	} else if !missing("config.yaml") {
		c, err := a.load(devFlags{config: "config.yaml"}, slog.New(slog.DiscardHandler))
		if err != nil {
			return "", err
		}
		models = c.DefaultModel
		if name == "" {
			name = c.DefaultProvider
		}
	}
	if m := models[name]; m != "" {
		return m, nil
	}
	if name == scripted.Name {
		return scripted.Model, nil
	}
	return "", &failure{code: "model_required", message: fmt.Sprintf("no model is named for provider %q", name), exit: exitFailed,
		hint: "pass --model, or set default_model." + orWord(name, "<provider>") + " in config.yaml"}
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

func (a *app) busy(st started, session string) error {
	if a.json {
		t := newTracker(session, st.MessageID)
		t.sum.Outcome = outcomeBusy
		if err := a.printJSON(t.sum); err != nil {
			return err
		}
	}
	return &failure{code: "session_busy", message: "a turn of this session has not ended", exit: exitBusy,
		hint: "harness events " + session + " --follow watches it; harness approvals shows whether it waits for you; harness abort " + session + " ends it"}
}

// duplicate tells of a turn that was accepted before under the same id.
func (a *app) duplicate(ctx context.Context, f *follower, st started) error {
	var view agent.TurnStateView
	if err := call(ctx, f.conn, "turn::get_state", map[string]string{"session_id": st.SessionID}, &view); err != nil {
		return err
	}
	t := newTracker(st.SessionID, st.MessageID)
	t.sum.State, t.sum.Error, t.sum.Outcome = view.State, view.Error, outcomeEnded
	switch {
	case view.State == "failed":
		t.sum.Outcome = outcomeError
	case view.State == "function_awaiting_approval" && len(view.AwaitingApproval) > 0:
		t.sum.Outcome, t.sum.AwaitingApproval = outcomeParked, view.AwaitingApproval
	case view.State != "stopped":
		return a.watch(ctx, f, t)
	}
	fmt.Fprintln(a.stderr, "this message was accepted before; nothing was run again")
	return a.conclude(t)
}

// watch prints a run until it ends or parks for a person.
func (a *app) watch(ctx context.Context, f *follower, t *tracker) error {
	s := &screen{out: a.stdout, side: a.stderr}
	for {
		l, err := f.next(ctx)
		if err != nil {
			return errors.Join(err, s.newline())
		}
		over, err := a.show(s, t, l)
		if err != nil {
			return err
		}
		if over {
			return errors.Join(s.newline(), a.conclude(t))
		}
	}
}

func (a *app) show(s *screen, t *tracker, l line) (over bool, err error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(l.Event, &head); err != nil {
		return false, fmt.Errorf("event: %w", err)
	}
	if a.json {
		err = a.printJSON(l)
	} else {
		err = s.see(head.Type, l.Event)
	}
	if err != nil {
		return false, err
	}
	return t.see(head.Type, l.Event)
}

// conclude prints the last line and gives the exit code.
func (a *app) conclude(t *tracker) error {
	if a.json {
		if err := a.printJSON(t.sum); err != nil {
			return err
		}
	}
	code := outcomeExit[t.sum.Outcome]
	switch t.sum.Outcome {
	case outcomeParked:
		if !a.json {
			for _, w := range t.sum.AwaitingApproval {
				fmt.Fprintf(a.stderr, "waiting for approval: %s %s\n  %s approve %s %s\n", w.FunctionID, a.decisionArgs(t.sum.SessionID, w.Args), a.name(), t.sum.SessionID, w.FunctionCallID)
			}
		}
	case outcomeError:
		e := &failure{code: "turn_error", message: "the turn ended in an error", exit: code}
		if t.sum.Error != nil {
			e.code, e.message = t.sum.Error.Kind, t.sum.Error.Message
		}
		return e
	}
	if code == exitDone {
		return nil
	}
	return exitError(code)
}
