package agent

import "encoding/json"

// Usage counts the tokens of a model call; absent numbers are unknown.
type Usage struct {
	Input      *int64   `json:"input,omitempty"`
	Output     *int64   `json:"output,omitempty"`
	CacheRead  *int64   `json:"cache_read,omitempty"`
	CacheWrite *int64   `json:"cache_write,omitempty"`
	CostUSD    *float64 `json:"cost_usd,omitempty"`
}

// UnmarshalJSON reads a usage. A count may be any JSON number; its fraction is
// dropped.
func (u *Usage) UnmarshalJSON(data []byte) error {
	var w struct {
		Input      *whole   `json:"input"`
		Output     *whole   `json:"output"`
		CacheRead  *whole   `json:"cache_read"`
		CacheWrite *whole   `json:"cache_write"`
		CostUSD    *float64 `json:"cost_usd"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*u = Usage{
		Input: (*int64)(w.Input), Output: (*int64)(w.Output),
		CacheRead: (*int64)(w.CacheRead), CacheWrite: (*int64)(w.CacheWrite), CostUSD: w.CostUSD,
	}
	return nil
}

// merged is u with the numbers of next in the place of its own. Neither is
// changed or shared.
func (u *Usage) merged(next *Usage) *Usage {
	if next == nil {
		return u.clone()
	}
	if u == nil {
		return next.clone()
	}
	return &Usage{
		Input: latest(u.Input, next.Input), Output: latest(u.Output, next.Output),
		CacheRead: latest(u.CacheRead, next.CacheRead), CacheWrite: latest(u.CacheWrite, next.CacheWrite),
		CostUSD: latest(u.CostUSD, next.CostUSD),
	}
}

func (u *Usage) clone() *Usage {
	if u == nil {
		return nil
	}
	return &Usage{
		Input: copied(u.Input), Output: copied(u.Output), CacheRead: copied(u.CacheRead), CacheWrite: copied(u.CacheWrite),
		CostUSD: copied(u.CostUSD),
	}
}

// latest is a copy of next, or of old where next says nothing.
func latest[T any](old, next *T) *T {
	if next != nil {
		return copied(next)
	}
	return copied(old)
}

// copied is a pointer of its own to the same value.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
