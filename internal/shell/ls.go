package shell

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sort"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
)

// maxEntries is how many entries a list has, lsBatch how many are read at once.
const (
	maxEntries = 2000
	lsBatch    = 1000
)

type pathRequest struct {
	Path string `json:"path"`
}

// LsResponse is a folder, sorted by name.
type LsResponse struct {
	Path    string  `json:"path"`
	Entries []Entry `json:"entries"`
	// Total is how many entries the folder has. Truncated is true if Entries
	// has only the first of them.
	Total     int  `json:"total"`
	Truncated bool `json:"truncated"`
}

// Entry is one file or folder.
type Entry struct {
	Name  string `json:"name"`
	Type  string `json:"type"` // file, dir, link, other
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime"` // epoch milliseconds
}

// ls lists a folder; an absent path is the working folder itself. Links are
// listed as links, wherever they lead.
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
		return LsResponse{}, &Error{Code: CodeKind, Type: "not_a_directory", Message: clip(rel) + " is a file", Fix: "read it with shell::fs::read"}
	}
	list, total, err := first(file)
	if err != nil {
		return LsResponse{}, s.folder.failure(rel, err)
	}
	out := LsResponse{Path: rel, Entries: make([]Entry, len(list)), Total: total, Truncated: total > len(list)}
	for i, d := range list {
		out.Entries[i] = entry(d)
	}
	return out, nil
}

// first is the first entries by name, and how many there are. No more than a
// few thousand are held, however many there are.
func first(dir fs.ReadDirFile) (list []fs.DirEntry, total int, err error) {
	for {
		batch, err := dir.ReadDir(lsBatch)
		total += len(batch)
		list = append(list, batch...)
		sort.Slice(list, func(i, j int) bool { return list[i].Name() < list[j].Name() })
		list = list[:min(len(list), maxEntries)]
		if errors.Is(err, io.EOF) {
			return list, total, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
}

func entry(d fs.DirEntry) Entry {
	e := Entry{Name: d.Name(), Type: kind(d.Type())}
	if info, err := d.Info(); err == nil { // gone between the two reads: name alone
		e.Size, e.MTime = info.Size(), clock.Millis(info.ModTime())
	}
	return e
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
