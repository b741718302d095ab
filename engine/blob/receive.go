package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/iii-aws/harness/engine/bus"
)

// pieceTimeout is how long a client may take to send a piece of a blob.
const pieceTimeout = 30 * time.Second

// receiveError is why bytes were not taken.
type receiveError struct {
	status        int
	code, message string
}

func (e *receiveError) Error() string { return e.message }

var (
	errNoUpload  = &receiveError{http.StatusNotFound, "NOT_FOUND", "There is no such upload: it may have been made, or its time is over"}
	errMethod    = &receiveError{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "An upload is a PUT"}
	errSize      = &receiveError{http.StatusBadRequest, "SIZE_MISMATCH", "The body has not the size that was announced"}
	errMIME      = &receiveError{http.StatusUnsupportedMediaType, "MIME_MISMATCH", "The content-type is not the one that was announced"}
	errDigest    = &receiveError{http.StatusBadRequest, "SHA256_MISMATCH", "The body has not the sha256 that was announced"}
	errTooSlow   = &receiveError{http.StatusRequestTimeout, "REQUEST_TIMEOUT", "The body did not come in time"}
	errNotStored = &receiveError{http.StatusInternalServerError, "INTERNAL", "The blob could not be stored"}
)

// ServeHTTP takes the bytes of an upload, once. A blob that is not exactly what was announced is not stored, and may be
// sent again until its time is over.
func (u *Uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, err := u.receive(w, r)
	if err == nil {
		reply(w, http.StatusCreated, info)
		return
	}
	var e *receiveError
	var timeout net.Error
	switch {
	case errors.As(err, &e):
	case errors.As(err, &timeout) && timeout.Timeout():
		e = errTooSlow
	default:
		e = errNotStored
	}
	if e == errMethod {
		w.Header().Set("Allow", http.MethodPut)
	}
	reply(w, e.status, map[string]any{"error": map[string]string{"code": e.code, "message": e.message}})
}

func (u *Uploads) receive(w http.ResponseWriter, r *http.Request) (Info, error) {
	token, ok := strings.CutPrefix(r.URL.Path, UploadPath)
	if !ok || token == "" {
		return Info{}, errNoUpload
	}
	if r.Method != http.MethodPut {
		return Info{}, errMethod
	}
	up := u.take(token)
	if up == nil {
		return Info{}, errNoUpload
	}
	stored := false
	defer func() { u.release(token, stored) }()
	if r.ContentLength >= 0 && r.ContentLength != up.size {
		return Info{}, errSize
	}
	if r.Header.Get("Content-Type") != up.mime {
		return Info{}, errMIME
	}
	body := &exactly{r: r.Body, control: http.NewResponseController(w), left: up.size, digest: up.digest, hash: sha256.New()}
	info, err := u.cfg.Store.PutAs(r.Context(), up.id, up.session, up.mime, body)
	if err != nil {
		return Info{}, err
	}
	stored = true
	if !up.kept {
		if err := u.cfg.Store.Expire(context.WithoutCancel(r.Context()), up.id, u.cfg.Clock.Now().Add(keptFor)); err != nil {
			return Info{}, errors.Join(err, u.cfg.Store.Delete(context.WithoutCancel(r.Context()), up.id))
		}
	}
	return info, nil
}

// exactly reads what was announced: its end is an error if anything is different.
type exactly struct {
	r       io.Reader
	control *http.ResponseController
	left    int64
	digest  []byte
	hash    hash.Hash
}

func (e *exactly) Read(p []byte) (int, error) {
	// The deadline is one of the system's sockets, so it goes by the system's clock.
	if err := e.control.SetReadDeadline(time.Now().Add(pieceTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := e.r.Read(p)
	if e.left -= int64(n); e.left < 0 {
		return 0, errSize
	}
	_, _ = e.hash.Write(p[:n]) // a hash never fails
	switch {
	case !errors.Is(err, io.EOF):
		return n, err
	case e.left > 0:
		return n, errSize
	case e.digest != nil && !bytes.Equal(e.digest, e.hash.Sum(nil)):
		return n, errDigest
	}
	return n, io.EOF
}

func reply(w http.ResponseWriter, status int, v any) {
	text, err := bus.Encode(v)
	if err != nil {
		panic(err) // texts and numbers
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone needs no answer
}
