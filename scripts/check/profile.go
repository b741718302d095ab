package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// block is a run of statements that execute together.
type block struct {
	file       string // import path and file name
	line       int    // where it starts
	statements int
	hit        bool // some test ran it
}

// readProfile reads a coverage profile. Each test binary writes every block it knows, so a block may
// stand there many times: it is hit if any of them says so. The blocks are sorted by file and line.
func readProfile(r io.Reader) ([]block, error) {
	blocks := map[string]block{} // by place
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := lines.Text()
		if strings.HasPrefix(text, "mode: ") || text == "" {
			continue
		}
		place, b, err := parseBlock(text)
		if err != nil {
			return nil, fmt.Errorf("coverage profile, line %d: %w", n, err)
		}
		b.hit = b.hit || blocks[place].hit
		blocks[place] = b
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("coverage profile: %w", err)
	}
	return slices.SortedFunc(maps.Values(blocks), func(a, b block) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	}), nil
}

// parseBlock reads a line such as "example.com/m/a/a.go:2.19,4.30 3 1": the file, where the block
// starts and ends (line.column), how many statements it has and how often it ran.
func parseBlock(text string) (place string, b block, err error) {
	bad := fmt.Errorf("want FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT, got %q", text)
	place, numbers, ok := strings.Cut(text, " ")
	colon := strings.LastIndexByte(place, ':')
	if !ok || colon < 0 {
		return "", block{}, bad
	}
	line, _, ok := strings.Cut(place[colon+1:], ".")
	statements, count, ok2 := strings.Cut(numbers, " ")
	if !ok || !ok2 {
		return "", block{}, bad
	}
	b.file = place[:colon]
	if b.line, err = strconv.Atoi(line); err != nil {
		return "", block{}, bad
	}
	if b.statements, err = strconv.Atoi(statements); err != nil {
		return "", block{}, bad
	}
	runs, err := strconv.ParseUint(count, 10, 64)
	if err != nil {
		return "", block{}, bad
	}
	b.hit = runs > 0
	return place, b, nil
}
