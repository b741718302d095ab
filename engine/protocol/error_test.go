package protocol

import (
	"encoding/json"
	"testing"
)

// The texts are what the engine answered in the recordings.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		got  *Error
		want string
	}{
		{"not found", FunctionNotFound("ora::missing", "default", nil), "function_not_found: Function ora::missing not found in namespace default."},
		{"not found, no namespace", FunctionNotFound("f", "", nil), "function_not_found: Function f not found in namespace default."},
		{
			"not found, elsewhere", FunctionNotFound("ora::only-shop", "default", []string{"shop"}),
			"function_not_found: Function ora::only-shop not found in namespace default. It is registered in namespace(s): shop.",
		},
		{
			"not found, elsewhere twice", FunctionNotFound("f", "n", []string{"b", "a"}),
			"function_not_found: Function f not found in namespace n. It is registered in namespace(s): a, b.",
		},
		{"missing field", MissingField("state::set", "scope"), "deserialization_error: Failed to deserialize input for state::set: missing field `scope`"},
		{
			"bad input", BadInput("state::get", "invalid type: integer `1`, expected a string"),
			"deserialization_error: Failed to deserialize input for state::get: invalid type: integer `1`, expected a string",
		},
		{
			"blank namespace", BlankNamespace("trigger_namespace"),
			"INVALID_NAMESPACE: `trigger_namespace` is empty: it was named and left blank. Give it a name, or omit it to use `default`.",
		},
		{"stopped", InvocationStopped(), "invocation_stopped: Invocation stopped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.got.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFunctionNotFoundLeavesItsInput(t *testing.T) {
	t.Parallel()
	names := []string{"b", "a"}
	FunctionNotFound("f", "n", names)
	if names[0] != "b" {
		t.Error("the caller's slice was sorted")
	}
}

func TestErrorRetryable(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		CodeChannelSendFailed: true, CodeInvocationStopped: true, CodeInvocationError: true, CodeTimeout: true,
		CodeTimeoutClient: true, CodeHTTPRequestFailed: true, CodeHTTPResponseFailed: true, CodeMiddlewareTimeout: true,
		CodeInvocationFailed: false, CodeFunctionNotFound: false, CodeEnqueueError: false, CodeForbidden: false,
		CodeInvalidNamespace: false, CodeDeserialization: false, CodeConflict: false, CodeValueTooLarge: false,
		CodeUnknown: false, "S215": false, "": false,
	} {
		if got := (&Error{Code: code}).Retryable(); got != want {
			t.Errorf("%q: got %t, want %t", code, got, want)
		}
	}
}

func TestErrorNil(t *testing.T) {
	t.Parallel()
	if e := (*Error)(nil); e.Retryable() || e.Error() != "unknown failure" {
		t.Errorf("got %v", e)
	}
}

func TestErrorJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(&Error{Code: "c", Message: "m"})
	if err != nil || string(got) != `{"code":"c","message":"m"}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestIsBlankNamespace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name *string
		want bool
	}{{nil, false}, {new(""), true}, {new(" \t"), true}, {new("shop"), false}} {
		if got := IsBlankNamespace(tt.name); got != tt.want {
			t.Errorf("%v: got %t", tt.name, got)
		}
	}
}
