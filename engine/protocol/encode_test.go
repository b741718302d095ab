package protocol

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEncode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		frame Frame
		want  string
	}{
		{"ping", &Ping{}, `{"type":"ping"}`},
		{"pong", &Pong{}, `{"type":"pong"}`},
		{
			"call, everything set",
			&InvokeFunction{
				InvocationID: someID, FunctionID: "f", Data: raw(`{ "b": 1.0 }`), Metadata: raw(`{"m":1}`), Traceparent: "tp",
				Baggage: "k=v", Action: &Action{Type: ActionEnqueue, Queue: `q"`}, Namespace: new(""),
			},
			`{"type":"invokefunction","invocation_id":"` + someID + `","function_id":"f","data":{ "b": 1.0 },"traceparent":"tp","baggage":"k=v",` +
				`"metadata":{"m":1},"action":{"type":"enqueue","queue":"q\""},"namespace":""}`,
		},
		{"call, nothing set", &InvokeFunction{}, `{"type":"invokefunction","function_id":"","data":null}`},
		{"void call", &InvokeFunction{FunctionID: "f", Action: &Action{Type: ActionVoid}}, `{"type":"invokefunction","function_id":"f","data":null,"action":{"type":"void"}}`},
		{"result absent", &InvocationResult{InvocationID: someID, FunctionID: "f"}, `{"type":"invocationresult","invocation_id":"` + someID + `","function_id":"f"}`},
		{"result null", &InvocationResult{InvocationID: someID, FunctionID: "f", Result: raw(`null`)}, `{"type":"invocationresult","invocation_id":"` + someID + `","function_id":"f","result":null}`},
		{
			"error drops the result",
			&InvocationResult{InvocationID: someID, FunctionID: "f", Result: raw(`1`), Error: &Error{Code: "c", Message: "m", Stacktrace: "a\nb"}, Traceparent: "tp", Baggage: "b"},
			`{"type":"invocationresult","invocation_id":"` + someID + `","function_id":"f","error":{"code":"c","message":"m","stacktrace":"a\nb"},"traceparent":"tp","baggage":"b"}`,
		},
		{"empty message stays", &InvocationResult{InvocationID: someID, Error: &Error{Code: "c"}}, `{"type":"invocationresult","invocation_id":"` + someID + `","function_id":"","error":{"code":"c","message":""}}`},
		{"reattach", &Reattach{PreviousWorkerID: "p", ReattachToken: "t"}, `{"type":"reattach","previous_worker_id":"p","reattach_token":"t"}`},
		{"workerregistered", &WorkerRegistered{WorkerID: "w", ReattachToken: "t"}, `{"type":"workerregistered","worker_id":"w","reattach_token":"t"}`},
		{
			"registerfunction", &RegisterFunction{ID: "f", Description: "d", RequestFormat: raw(`{}`), ResponseFormat: raw(`true`), Metadata: raw(`1`), Invocation: raw(` {}`)},
			`{"type":"registerfunction","id":"f","description":"d","request_format":{},"response_format":true,"metadata":1,"invocation": {}}`,
		},
		{"registerfunction bare", &RegisterFunction{ID: "f"}, `{"type":"registerfunction","id":"f"}`},
		{"unregisterfunction", &UnregisterFunction{ID: "f"}, `{"type":"unregisterfunction","id":"f"}`},
		{
			"registertrigger", &RegisterTrigger{ID: "i", TriggerType: "t", FunctionID: "f", Metadata: raw(`[]`), Namespace: new("n"), TriggerNamespace: new("m")},
			`{"type":"registertrigger","id":"i","trigger_type":"t","function_id":"f","config":{},"metadata":[],"namespace":"n","trigger_namespace":"m"}`,
		},
		{"registertrigger config null", &RegisterTrigger{ID: "i", Config: raw(`null`)}, `{"type":"registertrigger","id":"i","trigger_type":"","function_id":"","config":null}`},
		{"unregistertrigger", &UnregisterTrigger{ID: "i", TriggerType: "t"}, `{"type":"unregistertrigger","id":"i","trigger_type":"t"}`},
		{
			"triggerregistrationresult", &TriggerRegistrationResult{ID: "i", TriggerType: "t", FunctionID: "f", Error: BlankNamespace("namespace")},
			`{"type":"triggerregistrationresult","id":"i","trigger_type":"t","function_id":"f","error":{"code":"INVALID_NAMESPACE",` +
				"\"message\":\"`namespace` is empty: it was named and left blank. Give it a name, or omit it to use `default`.\"}}",
		},
		{
			"registertriggertype", &RegisterTriggerType{ID: "i", TriggerRequestFormat: raw(`{}`), CallRequestFormat: raw(`1`), ConfigSchema: raw(`2`), Namespace: new("n")},
			`{"type":"registertriggertype","id":"i","description":"","trigger_request_format":{},"call_request_format":1,"config_schema":2,"namespace":"n"}`,
		},
		{"unregistertriggertype", &UnregisterTriggerType{ID: "i", Description: "d"}, `{"type":"unregistertriggertype","id":"i","description":"d"}`},
		{"registerservice", &RegisterService{ID: "i", Name: "n", Description: "d", ParentServiceID: "p"}, `{"type":"registerservice","id":"i","name":"n","description":"d","parent_service_id":"p"}`},
		{
			"registrationrejected keeps an empty owner", &RegistrationRejected{Code: RejectedFunction, Namespace: "shop", FunctionID: "orders::price"},
			`{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"shop","function_id":"orders::price","owner_worker_id":""}`,
		},
		{
			"registrationrejected of a worker", &RegistrationRejected{Code: RejectedWorker, Namespace: "n", WorkerName: "w", OwnerWorkerID: "o"},
			`{"type":"registrationrejected","code":"WORKER_NAMESPACE_CONFLICT","namespace":"n","worker_name":"w","owner_worker_id":"o"}`,
		},
		{"chunk", &Chunk{ID: "c", N: 1, Of: 2, Data: `{"a`}, `{"type":"chunk","id":"c","n":1,"of":2,"data":"{\"a"}`},
		{"only what must be is escaped", &UnregisterFunction{ID: "<&>/\"\\\b\f\n\r\t\x00\x1f\x7f\u2028é😀\xff\xe2\x80"}, `{"type":"unregisterfunction","id":"<&>/\"\\\b\f\n\r\t\u0000\u001f` + "\x7f\u2028é😀\ufffd\ufffd\ufffd\"}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Encode(tt.frame)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := Decode(got); err != nil {
				t.Errorf("encoded frame does not decode: %v", err)
			}
			prefixed, err := Append([]byte("x"), tt.frame)
			if err != nil || string(prefixed) != "x"+tt.want {
				t.Errorf("Append: %s, %v", prefixed, err)
			}
		})
	}
}

func TestEncodeErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		frame Frame
		want  EncodeError
	}{
		{"nil", nil, EncodeError{Kind: KindMissingField, Allowed: "a frame"}},
		{"call id", &InvokeFunction{InvocationID: "i-1"}, EncodeError{TypeInvokeFunction, "invocation_id", KindBadUUID, wantUUID}},
		{"result id", &InvocationResult{}, EncodeError{TypeInvocationResult, "invocation_id", KindBadUUID, wantUUID}},
		{"data", &InvokeFunction{Data: raw(`{"a":}`)}, EncodeError{TypeInvokeFunction, "data", KindInvalidJSON, wantJSONValue}},
		{"two values", &InvokeFunction{Data: raw(`1 2`)}, EncodeError{TypeInvokeFunction, "data", KindInvalidJSON, wantJSONValue}},
		{"empty text", &InvocationResult{InvocationID: someID, Result: raw(``)}, EncodeError{TypeInvocationResult, "result", KindInvalidJSON, wantJSONValue}},
		{"not UTF-8", &InvokeFunction{Metadata: raw("\"\xff\"")}, EncodeError{TypeInvokeFunction, "metadata", KindInvalidJSON, wantJSONValue}},
		{"too deep", &InvokeFunction{Data: raw(nested(MaxDepth))}, EncodeError{TypeInvokeFunction, "data", KindInvalidJSON, wantJSONValue}},
		{"action", &InvokeFunction{Action: &Action{}}, EncodeError{TypeInvokeFunction, "action", KindBadValue, wantActionType}},
		{"invocation", &RegisterFunction{Invocation: raw(`[]`)}, EncodeError{TypeRegisterFunction, "invocation", KindBadType, wantObject}},
		{"the first mistake counts", &RegisterFunction{Metadata: raw(`x`), RequestFormat: raw(`y`)}, EncodeError{TypeRegisterFunction, "request_format", KindInvalidJSON, wantJSONValue}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dst, err := Append([]byte("keep"), tt.frame)
			var got *EncodeError
			if !errors.As(err, &got) {
				t.Fatalf("got %s, %v", dst, err)
			}
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if string(dst) != "keep" || got.ErrorCode() != string(tt.want.Kind) || got.Retryable() || got.Error() == "" {
				t.Errorf("dst %q, code %q, retryable %t", dst, got.ErrorCode(), got.Retryable())
			}
		})
	}
}

func BenchmarkDecodeInvokeFunction(b *testing.B) {
	text := benchmarkCall(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendInvokeFunction(b *testing.B) {
	frame, err := Decode(benchmarkCall(b))
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		if dst, err = Append(dst[:0], frame); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(dst)))
}

func benchmarkCall(b *testing.B) []byte {
	b.Helper()
	for _, r := range recordings(b) {
		if containsText(r.frame, `"metadata":{"user":"u"},"traceparent"`) {
			return r.frame
		}
	}
	b.Fatal("no recorded call")
	return nil
}
