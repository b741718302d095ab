package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iii-aws/harness/engine/blob"
	"github.com/iii-aws/harness/engine/bus"
	"github.com/iii-aws/harness/engine/clock"
	"github.com/iii-aws/harness/engine/embedded"
)

var (
	ann = bus.Principal{ID: "ann", Role: bus.RoleClient}
	bob = bus.Principal{ID: "bob", Role: bus.RoleClient}
)

// uploads is a server of uploads.
type uploads struct {
	t     testing.TB
	all   map[string]bus.Endpoint
	http  *httptest.Server
	clock *clock.Fake
}

func newUploads(t testing.TB, wrap func(blob.Store) blob.Store) *uploads {
	t.Helper()
	u := &uploads{t: t, all: map[string]bus.Endpoint{}, clock: clock.NewFake(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	db, err := embedded.Open(t.Context(), embedded.Options{Dir: t.TempDir(), NoSync: true, Clock: u.clock})
	if err != nil {
		t.Fatal(err)
	}
	store := db.Blobs()
	if wrap != nil {
		store = wrap(store)
	}
	mux := http.NewServeMux()
	u.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		u.http.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	owns := func(_ context.Context, p bus.Principal, session string) (bool, error) {
		if session == "broken" {
			return false, errors.New("store")
		}
		return session == "of-"+p.ID || session == "principal\x1fann" && p.ID == "bob", nil
	}
	h, err := blob.NewUploads(blob.UploadConfig{Store: store, Owns: owns, Clock: u.clock, IDs: clock.Sequence(5), URL: u.http.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/", h)
	for _, group := range []map[string]bus.Endpoint{h.Endpoints(), blob.Endpoints(store, owns)} {
		for id, e := range group {
			u.all[id] = e
		}
	}
	return u
}

// target is what create_upload answers.
type target struct {
	ID, URL, Method string
	Headers         map[string]string
	ExpiresAt       int64 `json:"expires_at"`
}

func (u *uploads) create(p bus.Principal, data string) (target, error) {
	u.t.Helper()
	out, err := u.all[blob.FunctionCreateUpload].Handle(u.t.Context(), &bus.Call{Principal: p, Data: json.RawMessage(data)})
	if err != nil {
		return target{}, err
	}
	var to target
	if err := json.Unmarshal(out, &to); err != nil {
		u.t.Fatal(err)
	}
	return to, nil
}

func (u *uploads) must(p bus.Principal, data string) target {
	u.t.Helper()
	to, err := u.create(p, data)
	if err != nil {
		u.t.Fatal(err)
	}
	return to
}

// send is the status of an upload, and the code of its error.
func (u *uploads) send(to target, body io.Reader, change func(*http.Request)) string {
	u.t.Helper()
	req, err := http.NewRequestWithContext(u.t.Context(), to.Method, to.URL, body)
	if err != nil {
		u.t.Fatal(err)
	}
	for name, value := range to.Headers {
		req.Header.Set(name, value)
	}
	if change != nil {
		change(req)
	}
	res, err := u.http.Client().Do(req)
	if err != nil {
		u.t.Fatal(err)
	}
	defer res.Body.Close()
	var b struct {
		ID    string
		Error struct{ Code string }
	}
	if err := json.NewDecoder(res.Body).Decode(&b); err != nil {
		u.t.Fatal(err)
	}
	if b.ID != "" && b.ID != to.ID {
		u.t.Errorf("stored as %s, announced %s", b.ID, to.ID)
	}
	return strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", b.Error.Code))
}

func (u *uploads) read(p bus.Principal, id string) string {
	u.t.Helper()
	res, err := read(u.t, u.all, p, fmt.Sprintf(`{"id":%q}`, id))
	if err != nil {
		return bus.Code(err)
	}
	b, err := base64.StdEncoding.DecodeString(res["data"].(string))
	if err != nil {
		u.t.Fatal(err)
	}
	return string(b) + " " + res["mime"].(string)
}

func TestUpload(t *testing.T) {
	t.Parallel()
	u := newUploads(t, nil)
	sum := sha256.Sum256([]byte("hello"))
	to := u.must(ann, `{"size":5,"mime":"text/plain; charset=utf-8","sha256":"`+hex.EncodeToString(sum[:])+`"}`)
	if to.Method != "PUT" || to.ExpiresAt != clock.Millis(u.clock.Now().Add(blob.UploadTTL)) || len(to.ID) != 40 || len(strings.TrimPrefix(to.URL, u.http.URL+blob.UploadPath)) != 43 || strings.Contains(to.URL, to.ID) {
		t.Errorf("got %+v", to)
	}
	if diff := cmp.Diff(map[string]string{"content-type": "text/plain; charset=utf-8"}, to.Headers); diff != "" {
		t.Error(diff)
	}
	if got := u.read(ann, to.ID); got != "not_found" {
		t.Errorf("before it is sent: %s", got)
	}
	unknown := to
	unknown.URL = to.URL[:len(to.URL)-1]
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	for _, tt := range []struct {
		name   string
		to     target
		body   string
		change func(*http.Request)
		want   string
	}{
		{"another address", unknown, "hello", nil, "404 NOT_FOUND"},
		{"no address", target{URL: u.http.URL + blob.UploadPath, Method: "PUT"}, "hello", nil, "404 NOT_FOUND"},
		{"another path", target{URL: u.http.URL + "/x", Method: "PUT"}, "hello", nil, "404 NOT_FOUND"},
		{"another method", to, "hello", func(r *http.Request) { r.Method = "POST" }, "405 METHOD_NOT_ALLOWED"},
		{"another type", to, "hello", func(r *http.Request) { r.Header.Set("Content-Type", "text/html") }, "415 MIME_MISMATCH"},
		{"too short", to, "hell", nil, "400 SIZE_MISMATCH"},
		{"too long", to, "hello!", nil, "400 SIZE_MISMATCH"},
		{"too short, unannounced", to, "hell", chunked, "400 SIZE_MISMATCH"},
		{"too long, unannounced", to, "hello!", chunked, "400 SIZE_MISMATCH"},
		{"other bytes", to, "hullo", nil, "400 SHA256_MISMATCH"},
		{"as announced", to, "hello", chunked, "201"},
		{"once more", to, "hello", nil, "404 NOT_FOUND"},
	} {
		if got := u.send(tt.to, strings.NewReader(tt.body), tt.change); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	for p, want := range map[string]string{"ann": "hello text/plain; charset=utf-8", "bob": "not_found", "": "not_found"} {
		if got := u.read(bus.Principal{ID: p}, to.ID); got != want {
			t.Errorf("%s reads %q, want %q", p, got, want)
		}
	}
	if got := u.read(operator, to.ID); got != "hello text/plain; charset=utf-8" {
		t.Errorf("an operator reads %q", got)
	}
	u.clock.Advance(24 * time.Hour)
	if got := u.read(ann, to.ID); got != "not_found" {
		t.Errorf("after a day: %s", got)
	}
}

func TestUploadOfASession(t *testing.T) {
	t.Parallel()
	u := newUploads(t, nil)
	to := u.must(ann, `{"size":0,"mime":"image/png","session_id":"of-ann"}`)
	if got := u.send(to, http.NoBody, nil); got != "201" {
		t.Fatal(got)
	}
	u.clock.Advance(48 * time.Hour)
	if got := u.read(ann, to.ID); got != " image/png" {
		t.Errorf("after two days: %q", got)
	}
	if got := u.read(bob, to.ID); got != "not_found" {
		t.Errorf("a stranger reads %q", got)
	}
	for session, want := range map[string]string{"of-ann": "not_found", "none": "not_found", "broken": "invocation_failed", "principal\x1fann": "not_found"} {
		b, err := json.Marshal(map[string]any{"size": 1, "mime": "a/b", "session_id": session})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.create(bob, string(b)); bus.Code(err) != want {
			t.Errorf("%q: got %v, want %s", session, err, want)
		}
	}
	if _, err := u.create(operator, `{"size":1,"mime":"a/b","session_id":"of-ann"}`); err != nil {
		t.Error(err)
	}
}

func TestUploadsThatCannotBe(t *testing.T) {
	t.Parallel()
	u := newUploads(t, nil)
	for data, want := range map[string]string{
		`{}`:                                    "deserialization_error",
		`{"size":1}`:                            "deserialization_error",
		`{"size":-1,"mime":"a/b"}`:              "deserialization_error",
		`{"size":1,"mime":""}`:                  "deserialization_error",
		`{"size":1,"mime":"a b"}`:               "deserialization_error",
		`{"size":1,"mime":"a/b;\r\nx"}`:         "deserialization_error",
		`{"size":1,"mime":"a/b","sha256":"x"}`:  "deserialization_error",
		`{"size":1,"mime":"a/b","sha256":"00"}`: "deserialization_error",
		fmt.Sprintf(`{"size":%d,"mime":"a/b"}`, blob.MaxSize+1): "VALUE_TOO_LARGE",
	} {
		if _, err := u.create(ann, data); bus.Code(err) != want {
			t.Errorf("%s: got %v, want %s", data, err, want)
		}
	}
	sum := base64.StdEncoding.EncodeToString(make([]byte, 32))
	if _, err := u.create(ann, `{"size":1,"mime":"a/b","sha256":"`+sum+`"}`); err != nil {
		t.Errorf("a sum in base64: %v", err)
	}
	for _, cfg := range []blob.UploadConfig{{}, {Store: newStore(t), Clock: u.clock, IDs: clock.Random(), URL: "http://[x"}} {
		if _, err := blob.NewUploads(cfg); err == nil {
			t.Errorf("%+v makes uploads", cfg)
		}
	}
}

func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	u := newUploads(t, nil)
	var first target
	for i := range 64 {
		to := u.must(ann, `{"size":1,"mime":"a/b"}`)
		if i == 0 {
			first = to
		}
	}
	if _, err := u.create(ann, `{"size":1,"mime":"a/b"}`); bus.Code(err) != blob.CodeTooManyUploads {
		t.Errorf("got %v", err)
	}
	for i := 64; i < blob.MaxUploads; i++ {
		u.must(bus.Principal{ID: fmt.Sprint(i)}, `{"size":1,"mime":"a/b"}`)
	}
	if _, err := u.create(bob, `{"size":1,"mime":"a/b"}`); bus.Code(err) != blob.CodeTooManyUploads {
		t.Errorf("got %v", err)
	}
	u.clock.Advance(blob.UploadTTL)
	if got := u.send(first, strings.NewReader("x"), nil); got != "404 NOT_FOUND" {
		t.Errorf("after its time: %s", got)
	}
	u.must(ann, `{"size":1,"mime":"a/b"}`)
}

// uploadFaults fails at one place.
type uploadFaults struct {
	blob.Store
	put, expire error
	deleted     []string
	// hold, if set, keeps a put until it is closed.
	entered, hold chan struct{}
}

func (f *uploadFaults) PutAs(ctx context.Context, id, session, mime string, r io.Reader) (blob.Info, error) {
	if f.hold != nil {
		close(f.entered)
		<-f.hold
	}
	if f.put != nil {
		return blob.Info{}, f.put
	}
	return f.Store.PutAs(ctx, id, session, mime, r)
}

func (f *uploadFaults) Expire(ctx context.Context, id string, at time.Time) error {
	if f.expire != nil {
		return f.expire
	}
	return f.Store.Expire(ctx, id, at)
}

func (f *uploadFaults) Delete(ctx context.Context, id string) error {
	f.deleted = append(f.deleted, id)
	return f.Store.Delete(ctx, id)
}

func TestUploadFaults(t *testing.T) {
	t.Parallel()
	f := &uploadFaults{put: errors.New("disk secret")}
	u := newUploads(t, func(s blob.Store) blob.Store { f.Store = s; return f })
	to := u.must(ann, `{"size":1,"mime":"a/b"}`)
	if got := u.send(to, strings.NewReader("x"), nil); got != "500 INTERNAL" {
		t.Error(got)
	}
	f.put = timeout{}
	if got := u.send(to, strings.NewReader("x"), nil); got != "408 REQUEST_TIMEOUT" {
		t.Error(got)
	}
	f.put, f.expire = nil, errors.New("disk")
	if got := u.send(to, strings.NewReader("x"), nil); got != "500 INTERNAL" || u.read(operator, to.ID) != "not_found" || len(f.deleted) != 1 {
		t.Errorf("%s: a blob that would be kept for ever", got)
	}
}

type timeout struct{}

func (timeout) Error() string   { return "slow" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestTwoCannotSendAtOnce(t *testing.T) {
	t.Parallel()
	f := &uploadFaults{entered: make(chan struct{}), hold: make(chan struct{})}
	u := newUploads(t, func(s blob.Store) blob.Store { f.Store = s; return f })
	to := u.must(ann, `{"size":1,"mime":"a/b"}`)
	done := make(chan string)
	go func() { done <- u.send(to, strings.NewReader("x"), nil) }()
	<-f.entered
	if got := u.send(to, strings.NewReader("x"), nil); got != "404 NOT_FOUND" {
		t.Errorf("the second: %s", got)
	}
	close(f.hold)
	if got := <-done; got != "201" {
		t.Errorf("the first: %s", got)
	}
}

func TestALargeUpload(t *testing.T) {
	t.Parallel()
	u := newUploads(t, nil)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<17)
	to := u.must(ann, fmt.Sprintf(`{"size":%d,"mime":"a/b"}`, len(content)))
	if got := u.send(to, bytes.NewReader(content), nil); got != "201" {
		t.Fatal(got)
	}
	res, err := read(t, u.all, ann, fmt.Sprintf(`{"id":%q,"max_bytes":1}`, to.ID))
	if err != nil || res["size"] != float64(len(content)) {
		t.Errorf("got %v, %v", res, err)
	}
}
