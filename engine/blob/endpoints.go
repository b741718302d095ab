package blob

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
)

// FunctionRead reads a piece of a blob.
const FunctionRead = "blob::read"

// Limits of one read, in bytes.
const (
	DefaultRead = 24576
	MaxRead     = 1 << 20
)

// Owns says whether a session belongs to a principal.
type Owns func(ctx context.Context, p bus.Principal, session string) (bool, error)

type endpoints struct {
	store Store
	owns  Owns
}

// Endpoints serves blob::read over a store. Blobs of a session that the caller may not see look like missing ones; a
// nil owns hides those of every session from everybody who does not see all.
func Endpoints(s Store, owns Owns) map[string]bus.Endpoint {
	if owns == nil {
		owns = func(context.Context, bus.Principal, string) (bool, error) { return false, nil }
	}
	e := endpoints{s, owns}
	return map[string]bus.Endpoint{FunctionRead: input.Endpoint(FunctionRead, e.read)}
}

type readRequest struct {
	ID       string `json:"id"`
	Offset   int64  `json:"offset,omitempty"`
	MaxBytes *int64 `json:"max_bytes,omitempty"`
}

type readResponse struct {
	Data string `json:"data"` // base64
	Size int64  `json:"size"` // of the whole blob
	MIME string `json:"mime"`
	// NextOffset is absent at the end.
	NextOffset *int64 `json:"next_offset,omitempty"`
}

// read gives at most max_bytes from an offset on, and never more than MaxRead.
func (e endpoints) read(ctx context.Context, call *bus.Call, req readRequest) (readResponse, error) {
	size := int64(DefaultRead)
	if req.MaxBytes != nil {
		size = *req.MaxBytes
	}
	if req.Offset < 0 || size < 1 {
		return readResponse{}, protocol.BadInput(FunctionRead,
			fmt.Sprintf("invalid value: offset %d and max_bytes %d, expected an offset from 0 and max_bytes from 1 on", req.Offset, size))
	}
	info, session, err := e.store.Stat(ctx, req.ID)
	if err != nil {
		return readResponse{}, err
	}
	if !call.Principal.SeesAll() {
		owns, err := e.sees(ctx, call.Principal, session)
		if err != nil {
			return readResponse{}, err
		}
		if !owns {
			return readResponse{}, &NotFoundError{ID: req.ID}
		}
	}
	data, err := e.piece(ctx, req.ID, req.Offset, min(size, MaxRead, max(info.Size-req.Offset, 0)))
	if err != nil {
		return readResponse{}, err
	}
	res := readResponse{Data: base64.StdEncoding.EncodeToString(data), Size: info.Size, MIME: info.MIME}
	if next := req.Offset + int64(len(data)); next < info.Size {
		res.NextOffset = &next
	}
	return res, nil
}

// sees reports whether a principal may read the blobs of a session.
func (e endpoints) sees(ctx context.Context, p bus.Principal, session string) (bool, error) {
	if strings.HasPrefix(session, ownPrefix) {
		return p.ID != "" && session == own(p), nil
	}
	return e.owns(ctx, p, session)
}

// piece reads n bytes.
func (e endpoints) piece(ctx context.Context, id string, offset, n int64) (data []byte, err error) {
	if n == 0 {
		return nil, nil
	}
	r, err := e.store.Open(ctx, id, offset)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data = make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("blob: read %q: %w", id, err)
	}
	return data, nil
}
