package otlp

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the first four letters of a message.
type Kind string

// The kinds.
const (
	Spans   Kind = "OTLP"
	Metrics Kind = "MTRC"
	Logs    Kind = "LOGS"
)

// MaxMessage is the largest message, in bytes.
const MaxMessage = 4 << 20

// Split takes a binary frame apart; ok is false for one that is no telemetry.
func Split(frame []byte) (kind Kind, payload []byte, ok bool) {
	if len(frame) < 4 {
		return "", nil, false
	}
	switch kind = Kind(frame[:4]); kind {
	case Spans, Metrics, Logs:
		return kind, frame[4:], true
	}
	return "", nil, false
}

// DecodeError is a payload that is not OTLP as JSON.
type DecodeError struct {
	Kind    Kind
	Problem string
	Err     error
}

// Error is the text of the error. It quotes nothing of the payload.
func (e *DecodeError) Error() string { return fmt.Sprintf("otlp: %s: %s", e.Kind, e.Problem) }

// Unwrap is the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// check tells whether a payload is what its kind says.
func check(kind Kind, payload []byte) error {
	if len(payload) > MaxMessage {
		return &DecodeError{Kind: kind, Problem: "more than 4 MiB"}
	}
	name := map[Kind]string{Spans: "resourceSpans", Metrics: "resourceMetrics", Logs: "resourceLogs"}[kind]
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return &DecodeError{Kind: kind, Problem: "no JSON object", Err: err}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(members[name], &list); err != nil {
		return &DecodeError{Kind: kind, Problem: "no list " + name, Err: err}
	}
	return nil
}

// gauge is one value of a worker.
type gauge struct {
	worker, name string
	value        float64
}

// prefix of the gauges that are kept.
const prefix = "iii.worker."

type attributes []struct {
	Key   string `json:"key"`
	Value struct {
		String string `json:"stringValue"`
	} `json:"value"`
}

func (a attributes) get(key string) string {
	for _, x := range a {
		if x.Key == key {
			return x.Value.String
		}
	}
	return ""
}

type metrics struct {
	Resources []struct {
		Resource struct {
			Attributes attributes `json:"attributes"`
		} `json:"resource"`
		Scopes []struct {
			Metrics []struct {
				Name  string `json:"name"`
				Gauge *struct {
					Points []point `json:"dataPoints"`
				} `json:"gauge"`
			} `json:"metrics"`
		} `json:"scopeMetrics"`
	} `json:"resourceMetrics"`
}

type point struct {
	Attributes attributes `json:"attributes"`
	Double     *float64   `json:"asDouble"`
	// Int is a number, or a text as protobuf's JSON has 64-bit numbers.
	Int json.RawMessage `json:"asInt"`
}

func (p point) value() (float64, bool) {
	if p.Double != nil {
		return *p.Double, true
	}
	v, err := strconv.ParseFloat(strings.Trim(string(p.Int), `"`), 64)
	return v, err == nil
}

// gauges is the worker gauges of a payload of metrics, the last of each name
// last.
func gauges(payload []byte) ([]gauge, error) {
	var m metrics
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, &DecodeError{Kind: Metrics, Problem: "a member of another type", Err: err}
	}
	var out []gauge
	for _, r := range m.Resources {
		for _, s := range r.Scopes {
			for _, x := range s.Metrics {
				name, ours := strings.CutPrefix(x.Name, prefix)
				if !ours || x.Gauge == nil {
					continue
				}
				for _, p := range x.Gauge.Points {
					worker := p.Attributes.get("worker.id")
					if worker == "" {
						worker = r.Resource.Attributes.get("worker.id")
					}
					if v, ok := p.value(); ok {
						out = append(out, gauge{worker, strings.ReplaceAll(name, ".", "_"), v})
					}
				}
			}
		}
	}
	return out, nil
}
