package secret

import (
	"errors"
	"strings"
	"testing"
)

func TestStoreErrorNamesThePlace(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk full")
	err := &StoreError{Path: "/data/credentials.json", Op: "write", Err: cause}
	if !errors.Is(err, cause) || err.ErrorCode() != "STORAGE_ERROR" || !strings.Contains(err.Error(), "write /data/credentials.json: disk full") {
		t.Errorf("error %v", err)
	}
}
