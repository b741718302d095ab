package timer

import "testing"

func TestInvalidErrorNamesTheField(t *testing.T) {
	t.Parallel()
	err := &InvalidError{Field: "id", Allowed: "1 to 256 bytes"}
	if err.Error() != "timer: invalid id: must be 1 to 256 bytes" || err.ErrorCode() != "invalid_payload" {
		t.Errorf("error %v, code %s", err, err.ErrorCode())
	}
}
