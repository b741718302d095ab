package queue

import (
	"context"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

type noRequest struct{}

type topicRow struct {
	Name            string `json:"name"`
	BrokerType      string `json:"broker_type"`
	SubscriberCount int    `json:"subscriber_count"`
}

type statsRequest struct {
	Topic string `json:"topic,omitempty"`
	// Queue is an alias of topic.
	Queue string `json:"queue,omitempty"`
}

type statsResponse struct {
	Depth         int          `json:"depth"`
	ConsumerCount int          `json:"consumer_count"`
	DLQDepth      int          `json:"dlq_depth"`
	Config        configFields `json:"config"`
}

// listTopics is every queue, whose concurrency counts as its subscribers, and every topic.
func (e *endpoints) listTopics(_ context.Context, call *bus.Call, _ noRequest) ([]topicRow, error) {
	rows := []topicRow{}
	for _, t := range e.shown(call) {
		rows = append(rows, topicRow{Name: t.name, BrokerType: t.broker(), SubscriberCount: e.consumers(t)})
	}
	return rows, nil
}

// topicStats counts the messages of a queue or of a topic. depth is those that wait.
func (e *endpoints) topicStats(ctx context.Context, call *bus.Call, req statsRequest) (statsResponse, error) {
	name := first(req.Topic, req.Queue)
	if name == "" {
		return statsResponse{}, &bus.Error{Code: protocol.CodeTopicRequired, Message: "missing required field: topic"}
	}
	t, err := e.visible(call, name)
	if err != nil {
		return statsResponse{}, failed(protocol.CodeNotFound, err)
	}
	s, err := e.stats(ctx, t)
	if err != nil {
		return statsResponse{}, err
	}
	return statsResponse{Depth: s.Depth, ConsumerCount: e.consumers(t), DLQDepth: s.DeadLetters, Config: configOf(t.queues[0])}, nil
}
