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

// dlqTopics is the queues that have dead letters.
func (e *endpoints) dlqTopics(ctx context.Context, call *bus.Call, _ noRequest) ([]dlqTopicRow, error) {
	rows := []dlqTopicRow{}
	for _, c := range e.shown(call) {
		s, err := e.q.Stats(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		if s.DeadLetters > 0 {
			rows = append(rows, dlqTopicRow{Topic: c.Name, BrokerType: brokerType, MessageCount: s.DeadLetters})
		}
	}
	return rows, nil
}

// dlqMessages is a page of a queue's dead letters, oldest first.
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
	if _, err := e.visible(call, name); err != nil {
		return nil, failed(protocol.CodeNotFound, err)
	}
	dead, err := e.q.DeadLetters(ctx, name, req.Offset, limit)
	if err != nil {
		return nil, err
	}
	rows := make([]dlqRow, 0, len(dead))
	for _, d := range dead {
		rows = append(rows, dlqRow{
			ID: d.ID, FunctionID: d.FunctionID, Payload: d.Data, Error: d.Error,
			FailedAt: d.FailedAt.Unix(), Retries: d.Receives, SizeBytes: len(d.Data),
		})
	}
	return rows, nil
}
