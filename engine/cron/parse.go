package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxExpression is the longest expression, in bytes.
const MaxExpression = 1024

// ParseError is an expression that is none. Its text shows where, in the layout of the iii engine.
type ParseError struct {
	Expression string
	// At is the byte at which reading ended.
	At     int
	Detail string
}

// Error is the text of the error.
func (e *ParseError) Error() string {
	return fmt.Sprintf("Invalid cron expression '%s': %s\n%s^\n%s", e.Expression, e.Expression, strings.Repeat(" ", e.At), e.Detail)
}

// field is one of an expression's.
type field struct {
	name     string
	min, max int
	names    []string // lower case, from min on; three letters are enough
	set      func(*Schedule) *set
	offset   int // what is subtracted from a value in the set
}

var fields = [7]field{
	{name: "Seconds", max: 59, set: func(s *Schedule) *set { return &s.second }},
	{name: "Minutes", max: 59, set: func(s *Schedule) *set { return &s.minute }},
	{name: "Hours", max: 23, set: func(s *Schedule) *set { return &s.hour }},
	{name: "Days of Month", min: 1, max: 31, set: func(s *Schedule) *set { return &s.day }},
	{name: "Months", min: 1, max: 12, set: func(s *Schedule) *set { return &s.month }, names: []string{
		"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
	}},
	{name: "Days of Week", min: 1, max: 7, set: func(s *Schedule) *set { return &s.weekday }, names: []string{
		"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday",
	}},
	{name: "Years", min: firstYear, max: lastYear, set: func(s *Schedule) *set { return &s.year }, offset: firstYear},
}

var shorthands = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 1", "@daily": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}

// Parse reads an expression. The error is a *ParseError.
func Parse(expression string) (*Schedule, error) {
	if len(expression) > MaxExpression {
		return nil, &ParseError{Expression: expression[:32] + "…", Detail: fmt.Sprintf("At most %d bytes are allowed.", MaxExpression)}
	}
	text := expression
	if long, ok := shorthands[strings.TrimSpace(expression)]; ok {
		text = long
	}
	s := &Schedule{}
	n, at := 0, 0
	for {
		at += len(text[at:]) - len(strings.TrimLeft(text[at:], " \t"))
		if at == len(text) {
			break
		}
		end := len(text)
		if i := strings.IndexAny(text[at:], " \t"); i >= 0 {
			end = at + i
		}
		if n == len(fields) {
			return nil, &ParseError{Expression: expression, At: at}
		}
		if detail := fields[n].read(text[at:end], s); detail != "" {
			return nil, &ParseError{Expression: expression, At: at, Detail: detail}
		}
		n, at = n+1, end
	}
	switch n {
	case 6:
		for y := range lastYear - firstYear + 1 {
			s.year.add(y)
		}
	case 7:
	default:
		return nil, &ParseError{Expression: expression, At: len(expression)}
	}
	if _, ok := s.Next(time.Time{}); !ok {
		return nil, &ParseError{Expression: expression, At: len(expression), Detail: "No day matches it."}
	}
	return s, nil
}

// read adds what a field says to the schedule. It returns what is wrong, or nothing.
func (f field) read(text string, s *Schedule) string {
	target := f.set(s)
	for item := range strings.SplitSeq(text, ",") {
		from, to, step, detail := f.item(item)
		if detail != "" {
			return detail
		}
		for n := from; n <= to; n += step {
			target.add(n - f.offset)
		}
	}
	return ""
}

// item reads one of a list: the values from, to and those in steps between.
func (f field) item(text string) (from, to, step int, detail string) {
	span, every, stepped := strings.Cut(text, "/")
	step = 1
	if stepped {
		n, err := strconv.Atoi(every)
		if err != nil || n < 1 || n > f.max {
			return 0, 0, 0, fmt.Sprintf("The '%s' field has a step from 1 to %d. '%s' specified.", f.name, f.max, every)
		}
		step = n
	}
	if span == "*" || span == "?" {
		return f.min, f.max, step, ""
	}
	first, last, ranged := strings.Cut(span, "-")
	if from, detail = f.value(first); detail != "" {
		return 0, 0, 0, detail
	}
	switch {
	case ranged:
		to, detail = f.value(last)
	case stepped:
		to = f.max
	default:
		to = from
	}
	if detail == "" && from > to {
		detail = fmt.Sprintf("The '%s' field has a range that ends before it starts. '%s' specified.", f.name, span)
	}
	return from, to, step, detail
}

// value is a number or a name.
func (f field) value(text string) (n int, detail string) {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		if int(n) < f.min || int(n) > f.max {
			return 0, fmt.Sprintf("The '%s' field allows %d to %d. '%s' specified.", f.name, f.min, f.max, text)
		}
		return int(n), ""
	}
	if !isName(text) {
		return 0, fmt.Sprintf("The '%s' field cannot be read. '%s' specified.", f.name, text)
	}
	if f.names == nil {
		return 0, fmt.Sprintf("The '%s' field does not support using names. '%s' specified.", f.name, text)
	}
	for i, name := range f.names {
		if len(text) >= 3 && strings.HasPrefix(name, strings.ToLower(text)) {
			return f.min + i, ""
		}
	}
	return 0, fmt.Sprintf("The '%s' field does not know the name. '%s' specified.", f.name, text)
}

func isName(text string) bool {
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return text != ""
}
