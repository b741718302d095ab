package blob

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/internal/input"
	"github.com/iii-aws/harness/engine/protocol"
)

// FunctionCreateUpload makes an address that takes the bytes of a new blob.
const FunctionCreateUpload = "blob::create_upload"

// UploadPath is what the paths of uploads begin with; a token follows.
const UploadPath = "/_harness/uploads/"

// Limits of uploads.
const (
	// UploadTTL is how long an address is good for.
	UploadTTL = 15 * time.Minute
	// MaxUploads are open at a time, and maxUploadsEach of them for one principal.
	MaxUploads     = 1024
	maxUploadsEach = 64
	// keptFor is how long a blob without a session is kept.
	keptFor = 24 * time.Hour
)

// CodeTooManyUploads is the code of an upload above these limits.
const CodeTooManyUploads = "too_many_uploads"

// UploadConfig is what Uploads need.
type UploadConfig struct {
	Store Store
	Owns  Owns // nil: no session is anybody's, but for those who see all
	Clock clock.Clock
	IDs   clock.IDs
	// URL is where the server of the paths is, such as http://127.0.0.1:3111.
	URL string
}

// Uploads are the open uploads of one process; they end with it. It is safe for concurrent use, serves
// blob::create_upload, and takes the bytes as an http.Handler.
type Uploads struct {
	cfg UploadConfig

	mu sync.Mutex
	// open is by the hash of the token, so that finding one tells nothing about others.
	open map[[sha256.Size]byte]*upload
}

// upload is one that was not made yet.
type upload struct {
	id, session, mime string
	principal         string
	size              int64
	digest            []byte // nil for any
	expires           time.Time
	kept              bool // as long as its session
	busy              bool // somebody sends it now
}

// NewUploads has no uploads.
func NewUploads(cfg UploadConfig) (*Uploads, error) {
	if cfg.Store == nil || cfg.Clock == nil || cfg.IDs == nil || cfg.URL == "" {
		return nil, errors.New("blob: Store, Clock, IDs and URL are required")
	}
	if _, err := url.Parse(cfg.URL); err != nil {
		return nil, fmt.Errorf("blob: url of uploads: %w", err)
	}
	if cfg.Owns == nil {
		cfg.Owns = func(context.Context, bus.Principal, string) (bool, error) { return false, nil }
	}
	return &Uploads{cfg: cfg, open: map[[sha256.Size]byte]*upload{}}, nil
}

// Endpoints serves blob::create_upload. The blob belongs to a session of the caller, if one is named; else it is the
// caller's alone, who may read it for a day.
func (u *Uploads) Endpoints() map[string]bus.Endpoint {
	return map[string]bus.Endpoint{FunctionCreateUpload: input.Endpoint(FunctionCreateUpload, u.create)}
}

type uploadRequest struct {
	Size int64  `json:"size"`
	MIME string `json:"mime"`
	// SHA256 is that of the bytes, in hex or base64; any bytes if absent.
	SHA256    string `json:"sha256,omitempty"`
	SessionID string `json:"session_id,omitempty"`
}

type uploadResponse struct {
	ID      string            `json:"id"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	// ExpiresAt is in milliseconds.
	ExpiresAt int64 `json:"expires_at"`
}

func (u *Uploads) create(ctx context.Context, call *bus.Call, req uploadRequest) (uploadResponse, error) {
	up := &upload{principal: call.Principal.ID, size: req.Size, mime: req.MIME, session: req.SessionID, kept: req.SessionID != ""}
	if err := up.check(req.SHA256); err != nil {
		return uploadResponse{}, err
	}
	switch {
	case !up.kept:
		up.session = own(call.Principal)
	case strings.HasPrefix(req.SessionID, ownPrefix):
		return uploadResponse{}, noSession()
	case !call.Principal.SeesAll():
		owns, err := u.cfg.Owns(ctx, call.Principal, req.SessionID)
		if err != nil {
			return uploadResponse{}, err
		}
		if !owns {
			return uploadResponse{}, noSession()
		}
	}
	var random [20 + 32]byte
	if _, err := u.cfg.IDs.Read(random[:]); err != nil {
		return uploadResponse{}, err
	}
	token := base64.RawURLEncoding.EncodeToString(random[20:])
	up.id = hex.EncodeToString(random[:20])
	up.expires = u.cfg.Clock.Now().Add(UploadTTL)
	if err := u.add(token, up); err != nil {
		return uploadResponse{}, err
	}
	return uploadResponse{
		ID: up.id, URL: strings.TrimSuffix(u.cfg.URL, "/") + UploadPath + token, Method: "PUT",
		Headers: map[string]string{"content-type": up.mime}, ExpiresAt: clock.Millis(up.expires),
	}, nil
}

func noSession() error { return &bus.Error{Code: "not_found", Message: "blob: no such session"} }

// check judges what was asked for.
func (up *upload) check(digest string) error {
	bad := func(detail string) error { return protocol.BadInput(FunctionCreateUpload, detail) }
	if up.size < 0 {
		return bad(fmt.Sprintf("invalid value: size %d, expected 0 or more", up.size))
	}
	if up.size > MaxSize {
		return &TooLargeError{Limit: MaxSize}
	}
	if _, _, err := mime.ParseMediaType(up.mime); err != nil || len(up.mime) > 256 {
		return bad("invalid value: mime, expected a media type of at most 256 bytes")
	}
	if digest == "" {
		return nil
	}
	var err error
	if up.digest, err = hex.DecodeString(digest); err != nil {
		up.digest, err = base64.StdEncoding.DecodeString(digest)
	}
	if err != nil || len(up.digest) != sha256.Size {
		return bad("invalid value: sha256, expected 32 bytes in hex or base64")
	}
	return nil
}

// ownPrefix is what the sessions of blobs begin with that belong to a principal alone. Sessions that begin so have no
// other blobs, whoever may own them.
const ownPrefix = "principal\x1f"

func own(p bus.Principal) string { return ownPrefix + p.ID }

// add opens an upload; those whose time is over make room.
func (u *Uploads) add(token string, up *upload) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.cfg.Clock.Now()
	own := 0
	for key, other := range u.open {
		switch {
		case !other.busy && !now.Before(other.expires):
			delete(u.open, key)
		case other.principal == up.principal:
			own++
		}
	}
	if len(u.open) >= MaxUploads || own >= maxUploadsEach {
		return &bus.Error{Code: CodeTooManyUploads, Message: fmt.Sprintf("at most %d uploads of one principal, and %d in all, are open at a time", maxUploadsEach, MaxUploads)}
	}
	u.open[sha256.Sum256([]byte(token))] = up
	return nil
}

// take is the upload of a token, for one who sends it; nil if there is none now.
func (u *Uploads) take(token string) *upload {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.open[sha256.Sum256([]byte(token))]
	if up == nil || up.busy || !u.cfg.Clock.Now().Before(up.expires) {
		return nil
	}
	up.busy = true
	return up
}

// release ends the sending of an upload. One that was not stored may be sent again.
func (u *Uploads) release(token string, stored bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := sha256.Sum256([]byte(token))
	if stored {
		delete(u.open, key)
		return
	}
	u.open[key].busy = false
}
