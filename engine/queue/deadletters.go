package queue

import (
	"context"
	"encoding/json"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

// Limits of a page of dead letters.
const (
	defaultPage = 50
	maxPage     = 1000
)

type dlqTopicRow struct {
	Topic        string `json:"topic"`
	BrokerType   string `json:"broker_type"`
	MessageCount int    `json:"message_count"`
}

type dlqRequest struct {
	Topic string `json:"topic,omitempty"`
	// Queue is an alias of topic.
	Queue  string `json:"queue,omitempty"`
	Offset int    `json:"offset,omitempty"`
	Limit  *int   `json:"limit,omitempty"`
}

type dlqRow struct {
	ID         string          `json:"id"`
	FunctionID string          `json:"function_id"`
	Payload    json.RawMessage `json:"payload"`
	Error      string          `json:"error"`
	FailedAt   int64           `json:"failed_at"` // Unix seconds
	Retries    int             `json:"retries"`
	SizeBytes  int             `json:"size_bytes"`
}

// dlqTopics is the queues and topics that have dead letters.
func (e *endpoints) dlqTopics(ctx context.Context, call *bus.Call, _ noRequest) ([]dlqTopicRow, error) {
	rows := []dlqTopicRow{}
	for _, t := range e.shown(call) {
		s, err := e.stats(ctx, t)
		if err != nil {
			return nil, err
		}
		if s.DeadLetters > 0 {
			rows = append(rows, dlqTopicRow{Topic: t.name, BrokerType: t.broker(), MessageCount: s.DeadLetters})
		}
	}
	return rows, nil
}

// dlqMessages is a page of the dead letters of a queue, oldest first. Those of a topic come subscription by subscription.
func (e *endpoints) dlqMessages(ctx context.Context, call *bus.Call, req dlqRequest) ([]dlqRow, error) {
	name, limit := first(req.Topic, req.Queue), defaultPage
	if req.Limit != nil {
		limit = *req.Limit
	}
	switch {
	case name == "":
		return nil, &bus.Error{Code: protocol.CodeTopicRequired, Message: "missing required field: topic"}
	case req.Offset < 0:
		return nil, protocol.BadInput(FunctionDLQMessages, "invalid value for `offset`: expected 0 or more")
	case limit < 1 || limit > maxPage:
		return nil, protocol.BadInput(FunctionDLQMessages, "invalid value for `limit`: expected 1 to 1000")
	}
	t, err := e.visible(call, name)
	if err != nil {
		return nil, failed(protocol.CodeNotFound, err)
	}
	rows, skip := []dlqRow{}, req.Offset
	err = e.each(t, func(c Config) error {
		if len(rows) == limit {
			return nil
		}
		if t.topic && skip > 0 {
			s, err := e.q.Stats(ctx, c.Name)
			if err != nil || skip >= s.DeadLetters {
				skip -= s.DeadLetters
				return err
			}
		}
		dead, err := e.q.DeadLetters(ctx, c.Name, skip, limit-len(rows))
		skip = 0
		for _, d := range dead {
			rows = append(rows, dlqRow{
				ID: d.ID, FunctionID: d.FunctionID, Payload: d.Data, Error: d.Error,
				FailedAt: d.FailedAt.Unix(), Retries: d.Receives, SizeBytes: len(d.Data),
			})
		}
		return err
	})
	return rows, err
}
