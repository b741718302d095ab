package web

import (
	"context"
	"errors"

	"github.com/iii-aws/harness/engine/channel"
)

// pipes are the channels of an exchange: one for the body of the request, one for the answer.
type pipes struct {
	broker       channel.Broker
	body, answer channel.Ref // as the function gets them
	toBody       channel.Writer
	fromAnswer   channel.Reader
}

func openPipes(ctx context.Context, b channel.Broker) (*pipes, error) {
	p := &pipes{broker: b}
	writer, body, err := b.Create(ctx, 0)
	if err != nil {
		return nil, err
	}
	p.body = body
	if p.toBody, err = b.OpenWriter(writer); err != nil {
		return nil, err
	}
	answer, reader, err := b.Create(ctx, 0)
	if err != nil {
		return nil, errors.Join(err, p.toBody.Close())
	}
	p.answer = answer
	if p.fromAnswer, err = b.OpenReader(reader); err != nil {
		return nil, errors.Join(err, p.toBody.Close())
	}
	return p, nil
}

// close ends both channels. Ends that the function did not open are taken, so that nothing is kept for it.
func (p *pipes) close() {
	_ = p.toBody.Close() // closing fails only for a channel that is gone
	_ = p.fromAnswer.Close()
	if r, err := p.broker.OpenReader(p.body); err == nil {
		_ = r.Close()
	}
	if w, err := p.broker.OpenWriter(p.answer); err == nil {
		_ = w.Close()
	}
}
