package turn

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/turn/step"
)

// stream asks the model. Its message is not saved here: the next state folds
// it into its own write.
func (d *driver) stream() error {
	if d.raised {
		// The lease is on record before the provider is called: what an older
		// step still hears is dropped.
		if err := d.save("lease"); err != nil {
			return err
		}
	}
	req, err := d.loadRequest()
	if err != nil {
		return err
	}
	if !d.rec.BeginTurn(d.t.nowMS()) {
		return d.save("stopped")
	}
	messages, err := d.conversation()
	if err != nil {
		return err
	}
	r, failed := d.decide(req.Provider, req.Model)
	if failed != nil && d.work.Err() == nil {
		return d.answered(d.synthetic(req, failed))
	}
	if messages, err = d.preflight(req, r, messages); err != nil {
		return err
	}
	refused := d.reserve(req, messages)
	if d.work.Err() != nil {
		return errInterrupted
	}
	if refused != "" {
		d.rec.StopForBudget(refused, d.t.nowMS())
		return d.save("stopped")
	}
	h, err := d.ask(req, r, messages)
	if err != nil {
		return err
	}
	d.settle(req, messages, h.message, h.shown || h.aborted)
	switch {
	case h.aborted:
		d.rec.Abort(&step.Reply{Message: h.message, Kept: h.kept, BodyStreamed: h.streamed}, d.t.nowMS())
		return d.save("aborted")
	case d.retryable(h):
		return d.pause(h)
	}
	return d.answered(h)
}

// ask makes one model call.
func (d *driver) ask(req *runRequest, r route, messages []agent.Message) (heard, error) {
	if err := d.holds(); err != nil {
		return heard{}, err
	}
	p := providerRequest{
		Model: req.Model, Messages: messages, Tools: req.Functions, ModelMeta: d.rec.ModelMeta, SessionID: d.rec.SessionID,
		ResolutionKey: step.RequestID(d.rec.SessionID, d.rec.StartedAtMS), ReservationID: d.rec.Reservation,
	}
	if req.SystemPrompt != "" {
		p.SystemPrompt = &req.SystemPrompt
	}
	if req.ThinkingLevel != "off" {
		p.ThinkingLevel = req.ThinkingLevel
	}
	c, err := d.startCall(r, p)
	if err != nil {
		return d.synthetic(req, &modelFailure{kind: agent.ErrTransient, text: "no channel for the model's answer: " + clean(err)}), nil
	}
	return d.listenTo(c, r, req.Model)
}

// synthetic is the answer of a model that could not be asked.
func (d *driver) synthetic(req *runRequest, f *modelFailure) heard {
	m := agent.EmptyAssistant(req.Provider, req.Model, d.t.nowMS())
	m.Content = []agent.Block{agent.Text(f.text)}
	m.StopReason, m.ErrorMessage, m.ErrorKind = agent.StopError, &f.text, &f.kind
	return heard{message: m, failure: f}
}

// answered takes the model's message. An error that nothing was shown of is
// shown as text.
func (d *driver) answered(h heard) error {
	if h.failure != nil && !h.shown {
		u := d.deltas()
		u.add(agent.LLMEvent{Type: agent.LLMTextDelta, Delta: h.failure.text}, agent.Delta{}, true)
		u.end()
	}
	d.rec.Adopt(&h.message)
	d.rec.AssistantFinished(step.Reply{
		Message: h.message, Kept: h.kept, BodyStreamed: h.streamed, Limit: d.limit(),
	}, d.t.nowMS())
	if d.rec.State.Terminal() {
		return d.save("stopped")
	}
	d.said(d.rec.LastAssistant.Raw)
	return nil
}

// retryable reports whether a failed call is made again: a passing fault that
// the provider told of and nobody has seen anything of, not too often.
func (d *driver) retryable(h heard) bool {
	if h.failure == nil || !h.told || h.shown || d.rec.Retries() >= int64(d.t.cfg.ProviderRetries) {
		return false
	}
	return h.failure.kind == agent.ErrRateLimited || h.failure.kind == agent.ErrTransient
}

// The pauses before a model call is repeated.
const (
	firstPause = time.Second
	maxPause   = time.Minute
	// maxWish is the longest pause that a provider may wish for.
	maxWish = time.Hour
)

// pause parks the turn until the model may be asked again.
func (d *driver) pause(h heard) error {
	now := d.t.nowMS()
	wait := min(time.Duration(h.failure.afterMS)*time.Millisecond, maxWish)
	if wait <= 0 {
		wait = backoff(d.rec.Run, d.rec.Retries())
	}
	d.rec.Pause(string(h.failure.kind), now+wait.Milliseconds(), now)
	d.t.Logger.Info("model call failed, it will be repeated", "session", d.rec.SessionID, "kind", h.failure.kind,
		"in", wait, "retry", d.rec.Wait.N)
	return d.save("wait")
}

// backoff is a pause that doubles with each retry, less up to a quarter that
// depends on the run, so that runs that failed together come back apart.
func backoff(run string, retry int64) time.Duration {
	d := min(firstPause<<min(retry, 16), maxPause)
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%d", run, retry) // never fails
	return d - time.Duration(uint64(d/4)*uint64(h.Sum32())>>32)
}
