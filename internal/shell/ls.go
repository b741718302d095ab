package shell

import (
	"context"
	"io/fs"
	"sort"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

const maxEntries = 2000

type pathRequest struct {
	Path string `json:"path"`
}

// LsResponse is a folder, sorted by name.
type LsResponse struct {
	Path      string  `json:"path"`
	Entries   []Entry `json:"entries"`
	Total     int     `json:"total"`
	Truncated bool    `json:"truncated"`
}

// Entry is one file or folder.
type Entry struct {
	Name  string `json:"name"`
	Type  string `json:"type"` // file, dir, link, other
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime"`
}

// ls lists a folder; an absent path is the working folder itself.
func (s *Shell) ls(_ context.Context, _ *bus.Call, r pathRequest) (LsResponse, error) {
	if r.Path == "" {
		r.Path = "."
	}
	file, info, rel, err := s.folder.open(r.Path)
	if err != nil {
		return LsResponse{}, err
	}
	defer file.Close()
	if !info.IsDir() {
		return LsResponse{}, &Error{Code: CodeKind, Type: "not_a_directory", Message: rel + " is a file", Fix: "read it with shell::fs::read"}
	}
	list, err := file.ReadDir(-1)
	if err != nil {
		return LsResponse{}, s.folder.failure(rel, err)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name() < list[j].Name() })
	out := LsResponse{Path: rel, Entries: []Entry{}, Total: len(list)}
	for _, d := range list {
		if len(out.Entries) == maxEntries {
			out.Truncated = true
			break
		}
		e := Entry{Name: d.Name(), Type: kind(d.Type())}
		if fi, err := d.Info(); err == nil { // gone between the two reads: name alone
			e.Size, e.MTime = fi.Size(), clock.Millis(fi.ModTime())
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "dir"
	case m&fs.ModeSymlink != 0:
		return "link"
	default:
		return "other"
	}
}
