package redact

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// minSecret is how many characters a value must have to be looked for.
const minSecret = 8

// Secrets are the secret values this process knows: provider keys, tokens it
// issued, credentials it read. Whoever reads or makes one adds it before using
// it.
var Secrets Registry

// Registry is a set of secret values. The zero Registry is empty and ready. It
// only grows: a key that was rotated is still a secret in an old message.
type Registry struct {
	mu    sync.Mutex
	known map[string]bool
	// needles is every form of every value, replaced as a whole on a change,
	// so that readers take no lock.
	needles atomic.Pointer[[]string]
}

// Add makes values known. Space around them does not count; values of fewer
// than 8 characters are ignored. Adding one again does nothing.
func (r *Registry) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var added []string
	for _, v := range values {
		v = strings.TrimSpace(v)
		if utf8.RuneCountInString(v) < minSecret || r.known[v] {
			continue
		}
		if r.known == nil {
			r.known = map[string]bool{}
		}
		r.known[v] = true
		added = append(added, forms(v)...)
	}
	if len(added) == 0 {
		return
	}
	var all []string
	if old := r.needles.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = append(all, added...)
	r.needles.Store(&all)
}

// find appends where known values stand in s.
func (r *Registry) find(s string, spans []span) []span {
	needles := r.needles.Load()
	if needles == nil {
		return spans
	}
	for _, n := range *needles {
		for at := 0; ; at++ {
			i := strings.Index(s[at:], n)
			if i < 0 {
				break
			}
			at += i
			spans = append(spans, span{at, at + len(n)})
		}
	}
	return spans
}

// forms is v and the encodings of it that a text may hold and that [views]
// does not undo: base64, and the plus sign for a space.
func forms(v string) []string {
	all := append([]string{v, url.QueryEscape(v)}, base64Cores(v)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// base64Cores is what every base64 text has in common that holds v somewhere
// inside: the digits that depend on v alone, for each of the three ways v can
// lie on the groups of three bytes, in both alphabets.
func base64Cores(v string) []string {
	var cores []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for lead := range 3 {
			digits := enc.EncodeToString([]byte("\x00\x00"[:lead] + v))
			from := (lead*8 + 5) / 6
			to := (lead + len(v)) * 8 / 6
			cores = append(cores, digits[from:to])
		}
	}
	return cores
}
