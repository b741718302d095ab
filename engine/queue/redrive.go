package queue

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

type redriveRequest struct {
	Queue string `json:"queue"`
	// Topic is an alias of queue.
	Topic     string `json:"topic,omitempty"`
	MessageID string `json:"message_id,omitempty"`
}

type redriveResponse struct {
	Queue    string `json:"queue"`
	Redriven int    `json:"redriven"`
}

type redriveMessageResponse struct {
	Queue     string `json:"queue"`
	MessageID string `json:"message_id"`
	Redriven  int    `json:"redriven"`
}

// redrive puts all dead letters of a queue or a topic back.
func (e *endpoints) redrive(ctx context.Context, call *bus.Call, req redriveRequest) (redriveResponse, error) {
	name := first(req.Queue, req.Topic)
	if name == "" {
		return redriveResponse{}, &bus.Error{Code: protocol.CodeQueueNotSet, Message: "missing required field: queue"}
	}
	t, err := e.visible(call, name)
	if err != nil {
		return redriveResponse{}, failed(protocol.CodeRedriveFailed, err)
	}
	total := 0
	err = e.each(t, func(c Config) error {
		n, err := e.q.Redrive(ctx, c.Name, "")
		total += n
		return err
	})
	if err != nil {
		return redriveResponse{}, failed(protocol.CodeRedriveFailed, err)
	}
	return redriveResponse{Queue: name, Redriven: total}, nil
}

// redriveMessage puts one dead letter back; 0 if there is none with that id.
func (e *endpoints) redriveMessage(ctx context.Context, call *bus.Call, req redriveRequest) (redriveMessageResponse, error) {
	return e.one(call, req, protocol.CodeRedriveMessageFailed, func(name string) (int, error) {
		return e.q.Redrive(ctx, name, req.MessageID)
	})
}

// discardMessage deletes one dead letter; redriven counts what was deleted.
func (e *endpoints) discardMessage(ctx context.Context, call *bus.Call, req redriveRequest) (redriveMessageResponse, error) {
	return e.one(call, req, protocol.CodeDiscardMessageFailed, func(name string) (int, error) {
		ok, err := e.q.Discard(ctx, name, req.MessageID)
		if ok {
			return 1, err
		}
		return 0, err
	})
}

// one does f for the queue that has the message.
func (e *endpoints) one(call *bus.Call, req redriveRequest, code string, f func(name string) (int, error)) (redriveMessageResponse, error) {
	name := first(req.Queue, req.Topic)
	switch {
	case name == "":
		return redriveMessageResponse{}, &bus.Error{Code: protocol.CodeQueueNotSet, Message: "missing required field: queue"}
	case req.MessageID == "":
		return redriveMessageResponse{}, &bus.Error{Code: protocol.CodeMessageIDNotSet, Message: "missing required field: message_id"}
	}
	t, err := e.visible(call, name)
	if err != nil {
		return redriveMessageResponse{}, failed(code, err)
	}
	done := 0
	err = e.each(t, func(c Config) error {
		if done > 0 {
			return nil
		}
		n, err := f(c.Name)
		done += n
		return err
	})
	if err != nil {
		return redriveMessageResponse{}, failed(code, err)
	}
	return redriveMessageResponse{Queue: name, MessageID: req.MessageID, Redriven: done}, nil
}

func failed(code string, err error) error {
	return &bus.Error{Code: code, Message: err.Error()}
}
