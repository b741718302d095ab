package scripted

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/iii-aws/harness/internal/agent"
	"github.com/iii-aws/harness/internal/provider"
)

// Fail says how a model call goes wrong.
type Fail struct {
	Kind    Kind   `yaml:"kind"`
	Message string `yaml:"message"`
	// After is how many runes of thinking, text and arguments come first.
	After int `yaml:"after"`
	// Times is how often a request fails before it works; 0 is always.
	Times        int   `yaml:"times"`
	RetryAfterMS int64 `yaml:"retry_after_ms"`
}

// Check tells what is wrong.
func (f *Fail) Check() (problem, allowed string) {
	switch {
	case f.Kind == "":
		return "kind is missing", kinds()
	case f.After < 0:
		return fmt.Sprintf("after is %d", f.After), "0 or more runes"
	case f.Times < 0:
		return fmt.Sprintf("times is %d", f.Times), "0 (always) or more"
	case f.RetryAfterMS < 0:
		return fmt.Sprintf("retry_after_ms is %d", f.RetryAfterMS), "0 or more milliseconds"
	}
	return "", ""
}

// Kind is how a call fails: an error kind of a real provider, or one of those
// below. In a rule it may be a template.
type Kind string

// The kinds beside the error kinds.
const (
	failCut          Kind = "cut"
	failSilence      Kind = "silence"
	failGarbage      Kind = "garbage"
	failLength       Kind = "length"
	failRefused      Kind = "refused"
	failNoCredential Kind = "no_credential"
	failDuplicate    Kind = "duplicate"
)

var failKinds = []Kind{
	Kind(agent.ErrRateLimited), Kind(agent.ErrTransient), Kind(agent.ErrPermanent), Kind(agent.ErrAuthExpired), Kind(agent.ErrContextOverflow),
	failCut, failSilence, failGarbage, failLength, failRefused, failNoCredential, failDuplicate,
}

// Check tells what is wrong. A template is known only when it was filled in.
func (k *Kind) Check() (problem, allowed string) {
	if !strings.Contains(string(*k), "$") && !slices.Contains(failKinds, *k) {
		return fmt.Sprintf("is %q", string(*k)), kinds()
	}
	return "", ""
}

func kinds() string {
	names := make([]string, len(failKinds))
	for i, k := range failKinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// refusal is the code of an error that comes in the place of a stream.
func (k Kind) refusal() string {
	switch k {
	case failRefused:
		return "invocation_failed"
	case failNoCredential:
		return "credential_missing"
	default:
		return ""
	}
}

// fill makes a failure of a template. What it names may be no kind: then the
// call fails for good.
func (f Fail) fill(expand func(string) string) *Fail {
	f.Kind, f.Message = Kind(expand(string(f.Kind))), expand(f.Message)
	if !slices.Contains(failKinds, f.Kind) {
		f.Kind = Kind(agent.ErrPermanent)
	}
	return &f
}

func (f *Fail) text() string {
	if f.Message != "" {
		return f.Message
	}
	return "the scripted model fails with " + string(f.Kind)
}

// maxTries bounds how many requests are remembered.
const maxTries = 10000

// tries counts the failures already given, by request.
type tries struct {
	mu sync.Mutex
	n  map[string]int
}

// due is the failure if it has still to happen to the request.
func (t *tries) due(f *Fail, r provider.Request) *Fail {
	if f == nil || f.Times == 0 {
		return f
	}
	key := digest(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n[key] >= f.Times {
		delete(t.n, key)
		return nil
	}
	if t.n == nil || len(t.n) >= maxTries {
		t.n = map[string]int{}
	}
	t.n[key]++
	return f
}

// digest tells requests apart.
func digest(r provider.Request) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	// Messages that were read can be written, and a hash takes all.
	if err := enc.Encode([]any{r.ResolutionKey, r.Model, r.Messages}); err != nil {
		panic(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}
