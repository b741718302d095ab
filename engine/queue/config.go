package queue

import (
	"fmt"
	"math"
	"time"
)

// Type is the kind of a queue.
type Type string

// The kinds of a queue.
const (
	Standard Type = "standard"
	FIFO     Type = "fifo"
)

// DefaultQueue always exists.
const DefaultQueue = "default"

// DeadLetterQueue is the internal queue that carries dead letters to the
// functions named by Config.DeadLetterFunction.
const DeadLetterQueue = "dead-letters"

// Values of a Config that mean less than the default, which zero stands for.
const (
	// NoBackoff as Config.Backoff makes a failed message visible at once.
	NoBackoff time.Duration = -1
	// Paused as Config.Concurrency hands out nothing.
	Paused = -1
)

// Defaults of a Config.
const (
	DefaultMaxReceives = 3
	DefaultBackoff     = time.Second
	DefaultConcurrency = 10
	DefaultVisibility  = 30 * time.Second
	DefaultTimeout     = 30 * time.Minute
)

// MaxVisibility is the longest time a message can be hidden by one call, as on
// SQS.
const MaxVisibility = 12 * time.Hour

// DedupWindow is how long a dedup id is remembered, as on SQS.
const DedupWindow = 5 * time.Minute

// Config describes a queue. Zero values take the defaults named.
type Config struct {
	// Name is 1 to 80 letters, digits, '-', '_', '.' or ':'.
	Name string `json:"name"`
	// Type is fixed once the queue holds messages; Standard.
	Type Type `json:"type"`
	// MaxReceives is the number of receives before the dead-letter queue; 3.
	MaxReceives int `json:"max_receives"`
	// Backoff is the pause before the second receive, doubled each time; 1 s.
	Backoff time.Duration `json:"backoff"`
	// Concurrency is the number of messages (standard) or groups (FIFO) in
	// flight; 10.
	Concurrency int `json:"concurrency"`
	// GroupField is the member of the data that names the group; FIFO only.
	GroupField string `json:"group_field,omitempty"`
	// Visibility is how long a received message stays hidden; 30 s.
	Visibility time.Duration `json:"visibility"`
	// Timeout is how long one receive may be worked on; 30 minutes.
	Timeout time.Duration `json:"timeout"`
	// ContentDedup drops a message whose function id and data equal one of
	// the last DedupWindow. A message's own dedup id goes before it.
	ContentDedup bool `json:"content_dedup,omitempty"`
	// DeadLetterFunction is called with the data of each message that is
	// given up, at least once, through DeadLetterQueue. The dead letter stays.
	DeadLetterFunction string `json:"dead_letter_function,omitempty"`
	// Internal queues are not shown to clients.
	Internal bool `json:"internal,omitempty"`
	// Subscription is whose queue it is, if a topic fills it; then Name is its
	// QueueName. Such queues are shown as their topic.
	Subscription Subscription `json:"subscription,omitzero"`
}

// WithDefaults is c with its zero values replaced.
func (c Config) WithDefaults() Config {
	orDefault(&c.Type, Standard)
	orDefault(&c.MaxReceives, DefaultMaxReceives)
	orDefault(&c.Backoff, DefaultBackoff)
	orDefault(&c.Concurrency, DefaultConcurrency)
	orDefault(&c.Visibility, DefaultVisibility)
	orDefault(&c.Timeout, DefaultTimeout)
	return c
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate checks a config whose defaults are filled in. The error is an
// *InvalidError.
func (c Config) Validate() error {
	bad := func(field, allowed string) error {
		return &InvalidError{Queue: c.Name, Field: field, Allowed: allowed}
	}
	switch {
	case !c.Subscription.IsZero() && !c.Subscription.valid(c.Name):
		return bad("subscription", "a topic, a function id and a namespace, with the name that they give")
	case c.Subscription.IsZero() && !validName(c.Name):
		return bad("name", "1 to 80 letters, digits, '-', '_', '.' or ':'")
	case c.Type != Standard && c.Type != FIFO:
		return bad("type", "standard or fifo")
	case c.MaxReceives < 1 || c.MaxReceives > 1000:
		return bad("max_receives", "1 to 1000")
	case c.Backoff < 0 && c.Backoff != NoBackoff:
		return bad("backoff", "0 or more")
	case c.Concurrency < 1 && c.Concurrency != Paused:
		return bad("concurrency", "1 or more")
	case c.Visibility < time.Second || c.Visibility > MaxVisibility:
		return bad("visibility", fmt.Sprintf("1s to %s", MaxVisibility))
	case c.Timeout <= 0:
		return bad("timeout", "more than 0")
	case c.GroupField != "" && c.Type != FIFO:
		return bad("group_field", "left out unless type is fifo")
	}
	return nil
}

func validName(s string) bool {
	if len(s) < 1 || len(s) > 80 {
		return false
	}
	for _, r := range []byte(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case r == '-', r == '_', r == '.', r == ':':
		default:
			return false
		}
	}
	return true
}

// BackoffAfter is the pause after the nth receive failed; n starts at 1. It is
// not capped, short of what a Duration can hold.
func (c Config) BackoffAfter(n int) time.Duration {
	if c.Backoff <= 0 {
		return 0
	}
	// Half of the largest Duration, so that adding it to a clock cannot wrap.
	const most = time.Duration(math.MaxInt64 / 2)
	d := c.Backoff
	for ; n > 1; n-- {
		if d > most/2 {
			return most
		}
		d *= 2
	}
	return d
}
