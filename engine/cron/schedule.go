package cron

import (
	"math/bits"
	"time"
)

// The years that an expression may name, and within which times are looked for.
const (
	firstYear = 1970
	lastYear  = 2100
)

// set is a set of small numbers.
type set [3]uint64

func (s *set) add(n int)      { s[n/64] |= 1 << (n % 64) }
func (s *set) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// from is the smallest member that is n or more; -1 if there is none.
func (s *set) from(n int) int {
	for i := n / 64; i < len(s); i++ {
		word := s[i]
		if i == n/64 {
			word &= ^uint64(0) << (n % 64)
		}
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// Schedule is the times of an expression.
type Schedule struct {
	second, minute, hour, day, month, weekday set
	year                                      set // from firstYear on
}

// Next is the first time after a time, to the second and in UTC; ok is false if there is none until the end of 2100.
func (s *Schedule) Next(after time.Time) (next time.Time, ok bool) {
	t := after.UTC().Truncate(time.Second).Add(time.Second)
	if t.Year() < firstYear {
		t = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	clock := [3]int{t.Hour(), t.Minute(), t.Second()}
	for t.Year() <= lastYear {
		if !s.year.has(t.Year() - firstYear) {
			t, clock = time.Date(t.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC), [3]int{}
			continue
		}
		if !s.month.has(int(t.Month())) {
			t, clock = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC), [3]int{}
			continue
		}
		if s.day.has(t.Day()) && s.weekday.has(int(t.Weekday())+1) {
			if h, m, sec, ok := s.within(clock); ok {
				return time.Date(t.Year(), t.Month(), t.Day(), h, m, sec, 0, time.UTC), true
			}
		}
		t, clock = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC), [3]int{}
	}
	return time.Time{}, false
}

// within is the first time of a day that is not before a time of it.
func (s *Schedule) within(at [3]int) (hour, minute, second int, ok bool) {
	hour = s.hour.from(at[0])
	if hour == at[0] {
		minute = s.minute.from(at[1])
		if minute == at[1] {
			if second = s.second.from(at[2]); second >= 0 {
				return hour, minute, second, true
			}
			minute = s.minute.from(at[1] + 1)
		}
		if minute >= 0 {
			return hour, minute, s.second.from(0), true
		}
		hour = s.hour.from(at[0] + 1)
	}
	return hour, s.minute.from(0), s.second.from(0), hour >= 0
}
