package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/protocol"
)

type enqueueRequest struct {
	Queue      string          `json:"queue"`
	FunctionID string          `json:"function_id"`
	Data       json.RawMessage `json:"data,omitempty"`
	ReceiptID  string          `json:"messageReceiptId,omitempty"`
	// Both may be null.
	Traceparent *string `json:"traceparent,omitempty"`
	Baggage     *string `json:"baggage,omitempty"`
	Namespace   *string `json:"namespace,omitempty"`
}

type enqueueResponse struct {
	ReceiptID string `json:"messageReceiptId"`
}

// enqueue stores a call. The answer comes when it is durable. The principal of
// the message is the caller's.
func (e *endpoints) enqueue(ctx context.Context, call *bus.Call, req enqueueRequest) (enqueueResponse, error) {
	switch {
	case req.Queue == "":
		return enqueueResponse{}, protocol.MissingField(FunctionEnqueue, "queue")
	case req.FunctionID == "":
		return enqueueResponse{}, protocol.MissingField(FunctionEnqueue, "function_id")
	case protocol.IsBlankNamespace(req.Namespace):
		return enqueueResponse{}, protocol.BlankNamespace("namespace")
	}
	if t, err := e.visible(call, req.Queue); err != nil || t.topic {
		return enqueueResponse{}, &UnknownError{Queue: req.Queue}
	}
	m := Message{
		Queue: req.Queue, FunctionID: req.FunctionID, Data: req.Data, Principal: call.Principal,
		External:    call.Connection != "",
		Traceparent: text(req.Traceparent), Baggage: text(req.Baggage), Namespace: text(req.Namespace),
		ReceiptID: strings.TrimSpace(req.ReceiptID),
	}
	if len(bytes.TrimSpace(m.Data)) == 0 {
		m.Data = json.RawMessage("null")
	}
	if m.Namespace == "" {
		m.Namespace = bus.DefaultNamespace
	}
	if err := e.authorize(call, m.Namespace, m.FunctionID); err != nil {
		return enqueueResponse{}, err
	}
	sent, err := e.q.Submit(ctx, m).Wait(ctx)
	if err != nil {
		return enqueueResponse{}, err
	}
	if m.ReceiptID == "" {
		m.ReceiptID = sent.ID
	}
	return enqueueResponse{ReceiptID: m.ReceiptID}, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
