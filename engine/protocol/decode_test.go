package protocol

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someID = "0d1f0000-0000-4000-8000-000000000001"

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		text string
		want Frame
	}{
		{"ping", `{"type":"ping"}`, &Ping{}},
		{"pong with space around", " {\n\"type\" :\t\"pong\" }\r\n", &Pong{}},
		{"type last, escaped name and value", `{"id":"f","\u0074ype":"unregisterfunctio\u006e"}`, &UnregisterFunction{ID: "f"}},
		{"names match by case", `{"type":"unregisterfunction","ID":"x","id":"f"}`, &UnregisterFunction{ID: "f"}},
		{"unknown members ignored, also twice", `{"type":"ping","x":1,"x":2,"message_type":5}`, &Ping{}},
		{"members of other frames ignored, also twice", `{"type":"ping","data":1,"data":2}`, &Ping{}},
		{
			"registerfunction", `{"type":"registerfunction","id":"f","description":"d","request_format":{"type":"object"},` +
				`"response_format":true,"metadata":{"a":1e3},"invocation":{"url":"https://x"}}`,
			&RegisterFunction{
				ID: "f", Description: "d", RequestFormat: raw(`{"type":"object"}`), ResponseFormat: raw(`true`),
				Metadata: raw(`{"a":1e3}`), Invocation: raw(`{"url":"https://x"}`),
			},
		},
		{
			"null is absent", `{"type":"registerfunction","id":"f","description":null,"request_format":null,"metadata":null,"invocation":null}`,
			&RegisterFunction{ID: "f"},
		},
		{
			"registertrigger", `{"type":"registertrigger","function_id":"f","config":{"z":1,"a":2},"metadata":[1],"id":"i",` +
				`"message_type":"registertrigger","trigger_type":"http","namespace":"shop","trigger_namespace":""}`,
			&RegisterTrigger{
				ID: "i", TriggerType: "http", FunctionID: "f", Config: raw(`{"z":1,"a":2}`), Metadata: raw(`[1]`),
				Namespace: new("shop"), TriggerNamespace: new(""),
			},
		},
		{
			"registertrigger without config", `{"type":"registertrigger","id":"i","trigger_type":"t","function_id":"f"}`,
			&RegisterTrigger{ID: "i", TriggerType: "t", FunctionID: "f", Config: raw(`{}`)},
		},
		{
			"registertrigger with config null", `{"type":"registertrigger","id":"i","trigger_type":"t","function_id":"f","config":null,"namespace":null}`,
			&RegisterTrigger{ID: "i", TriggerType: "t", FunctionID: "f", Config: raw(`null`)},
		},
		{"unregistertrigger without type", `{"type":"unregistertrigger","id":"i"}`, &UnregisterTrigger{ID: "i"}},
		{
			"triggerregistrationresult", `{"type":"triggerregistrationresult","id":"i","trigger_type":"t","function_id":"f"}`,
			&TriggerRegistrationResult{ID: "i", TriggerType: "t", FunctionID: "f"},
		},
		{
			"triggerregistrationresult with error", `{"type":"triggerregistrationresult","id":"i","trigger_type":"t","function_id":"f","error":{"code":"c","message":"m"}}`,
			&TriggerRegistrationResult{ID: "i", TriggerType: "t", FunctionID: "f", Error: &Error{Code: "c", Message: "m"}},
		},
		{
			"triggerregistrationresult with garbage is no success", `{"type":"triggerregistrationresult","id":"i","trigger_type":"t","function_id":"f","error":7}`,
			&TriggerRegistrationResult{ID: "i", TriggerType: "t", FunctionID: "f", Error: &Error{
				Code: CodeTriggerRegistrationFailed, Message: "malformed error body, want " + wantErrorBody,
			}},
		},
		{
			"registertriggertype", `{"type":"registertriggertype","id":"i","description":"d","trigger_request_format":{},"call_request_format":{"a":1},"config_schema":{"b":1},"namespace":"n"}`,
			&RegisterTriggerType{
				ID: "i", Description: "d", TriggerRequestFormat: raw(`{}`), CallRequestFormat: raw(`{"a":1}`),
				ConfigSchema: raw(`{"b":1}`), Namespace: new("n"),
			},
		},
		{"unregistertriggertype", `{"type":"unregistertriggertype","id":"i","description":"d"}`, &UnregisterTriggerType{ID: "i", Description: "d"}},
		{
			"registerservice", `{"type":"registerservice","id":"i","name":"n","description":"d","parent_service_id":"p"}`,
			&RegisterService{ID: "i", Name: "n", Description: "d", ParentServiceID: "p"},
		},
		{
			"invokefunction", `{"type":"invokefunction","invocation_id":"0D1F0000-0000-4000-8000-000000000001","function_id":"f","data":{"b":12345678901234567890123, "a":1.0},` +
				`"metadata":{"t":"a"},"traceparent":"00-x","baggage":"k=v","action":{"queue":"q","type":"enqueue"},"namespace":" "}`,
			&InvokeFunction{
				InvocationID: "0D1F0000-0000-4000-8000-000000000001", FunctionID: "f", Data: raw(`{"b":12345678901234567890123, "a":1.0}`),
				Metadata: raw(`{"t":"a"}`), Traceparent: "00-x", Baggage: "k=v",
				Action: &Action{Type: ActionEnqueue, Queue: "q"}, Namespace: new(" "),
			},
		},
		{
			"invokefunction without data, with nulls", `{"type":"invokefunction","invocation_id":null,"function_id":"f","metadata":null,"traceparent":null,"baggage":null,"action":null,"namespace":null}`,
			&InvokeFunction{FunctionID: "f", Data: raw(`null`)},
		},
		{
			"void", `{"type":"invokefunction","function_id":"f","data":[],"action":{"type":"void","queue":5}}`,
			&InvokeFunction{FunctionID: "f", Data: raw(`[]`), Action: &Action{Type: ActionVoid}},
		},
		{
			"dashless id", `{"type":"invokefunction","invocation_id":"0d1f00000000400080000000000000AB","function_id":""}`,
			&InvokeFunction{InvocationID: "0d1f00000000400080000000000000AB", Data: raw(`null`)},
		},
		{"reattach", `{"type":"reattach","previous_worker_id":"p","reattach_token":"t"}`, &Reattach{PreviousWorkerID: "p", ReattachToken: "t"}},
		{"reattach without token", `{"type":"reattach","previous_worker_id":"p"}`, &Reattach{PreviousWorkerID: "p"}},
		{"workerregistered", `{"type":"workerregistered","worker_id":"w","reattach_token":"t","features":[]}`, &WorkerRegistered{WorkerID: "w", ReattachToken: "t"}},
		{
			"registrationrejected", `{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"shop","function_id":"f","owner_worker_id":""}`,
			&RegistrationRejected{Code: RejectedFunction, Namespace: "shop", FunctionID: "f"},
		},
		{"chunk", `{"type":"chunk","id":"c","n":1,"of":2,"data":"{\"t"}`, &Chunk{ID: "c", N: 1, Of: 2, Data: `{"t`}},
		{"strings unescaped", `{"type":"unregisterfunction","id":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\u2028é😀"}`, &UnregisterFunction{ID: "\"\\/\b\f\n\r\té😀\u2028é😀"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	call := func(members string) string { return `{"type":"invokefunction","function_id":"f",` + members + `}` }
	tests := []struct {
		name string
		text string
		want DecodeError
	}{
		{"empty", ``, DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"array", `[]`, DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"two objects", `{"type":"ping"}{}`, DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"cut", `{"type":"ping"`, DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"trailing comma", `{"type":"ping",}`, DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"byte order mark", "\ufeff{\"type\":\"ping\"}", DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"not UTF-8 in an opaque member", "{\"type\":\"invokefunction\",\"function_id\":\"f\",\"data\":\"\xff\"}", DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"too deep", call(`"data":` + nested(MaxDepth)), DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}},
		{"no type", `{}`, DecodeError{Field: "type", Kind: KindMissingField, Allowed: wantString}},
		{"type is a number", `{"type":1}`, DecodeError{Field: "type", Kind: KindBadType, Allowed: wantString}},
		{"type null", `{"type":null}`, DecodeError{Field: "type", Kind: KindBadType, Allowed: wantString}},
		{"type twice", `{"type":"ping","type":"ping"}`, DecodeError{Field: "type", Kind: KindDuplicateField, Allowed: wantOnce}},
		{"unknown type", `{"type":"Ping"}`, DecodeError{Frame: "Ping", Field: "type", Kind: KindUnknownType, Allowed: "a frame type of the bus"}},
		{
			"unknown type is cut", `{"type":"` + strings.Repeat("x", 500) + `"}`,
			DecodeError{Frame: Type(strings.Repeat("x", 64)), Field: "type", Kind: KindUnknownType, Allowed: "a frame type of the bus"},
		},
		{"missing id", `{"type":"registerfunction"}`, DecodeError{Frame: TypeRegisterFunction, Field: "id", Kind: KindMissingField, Allowed: wantString}},
		{"id null", `{"type":"registerfunction","id":null}`, DecodeError{Frame: TypeRegisterFunction, Field: "id", Kind: KindBadType, Allowed: wantString}},
		{"description a number", `{"type":"registerfunction","id":"f","description":1}`, DecodeError{Frame: TypeRegisterFunction, Field: "description", Kind: KindBadType, Allowed: wantString}},
		{"invocation an array", `{"type":"registerfunction","id":"f","invocation":[]}`, DecodeError{Frame: TypeRegisterFunction, Field: "invocation", Kind: KindBadType, Allowed: wantObject}},
		{"trigger type without description", `{"type":"registertriggertype","id":"i"}`, DecodeError{Frame: TypeRegisterTriggerType, Field: "description", Kind: KindMissingField, Allowed: wantString}},
		{"function_id twice", call(`"function_id":"g"`), DecodeError{Frame: TypeInvokeFunction, Field: "function_id", Kind: KindDuplicateField, Allowed: wantOnce}},
		{"function_id twice, escaped", call(`"function\u005fid":"g"`), DecodeError{Frame: TypeInvokeFunction, Field: "function_id", Kind: KindDuplicateField, Allowed: wantOnce}},
		{"metadata twice", call(`"metadata":{},"metadata":{}`), DecodeError{Frame: TypeInvokeFunction, Field: "metadata", Kind: KindDuplicateField, Allowed: wantOnce}},
		{"namespace a number", call(`"namespace":5`), DecodeError{Frame: TypeInvokeFunction, Field: "namespace", Kind: KindBadType, Allowed: wantString}},
		{"traceparent an object", call(`"traceparent":{}`), DecodeError{Frame: TypeInvokeFunction, Field: "traceparent", Kind: KindBadType, Allowed: wantString}},
		{"invocation_id empty", call(`"invocation_id":""`), DecodeError{Frame: TypeInvokeFunction, Field: "invocation_id", Kind: KindBadUUID, Allowed: wantUUID}},
		{"invocation_id a number", call(`"invocation_id":1`), DecodeError{Frame: TypeInvokeFunction, Field: "invocation_id", Kind: KindBadType, Allowed: wantString}},
		{"action a string", call(`"action":"void"`), DecodeError{Frame: TypeInvokeFunction, Field: "action", Kind: KindBadType, Allowed: wantObject}},
		{"action without type", call(`"action":{}`), DecodeError{Frame: TypeInvokeFunction, Field: "action.type", Kind: KindBadValue, Allowed: "a string, once"}},
		{"action type twice", call(`"action":{"type":"void","typ\u0065":"enqueue"}`), DecodeError{Frame: TypeInvokeFunction, Field: "action.type", Kind: KindBadValue, Allowed: "a string, once"}},
		{"action unknown", call(`"action":{"type":"later"}`), DecodeError{Frame: TypeInvokeFunction, Field: "action.type", Kind: KindBadValue, Allowed: wantActionType}},
		{"enqueue without queue", call(`"action":{"type":"enqueue"}`), DecodeError{Frame: TypeInvokeFunction, Field: "action.queue", Kind: KindBadValue, Allowed: "a string, once"}},
		{"the first mistake counts", `{"type":"invokefunction","namespace":5,"action":3}`, DecodeError{Frame: TypeInvokeFunction, Field: "function_id", Kind: KindMissingField, Allowed: wantString}},
		{"result without id", `{"type":"invocationresult","function_id":"f"}`, DecodeError{Frame: TypeInvocationResult, Field: "invocation_id", Kind: KindMissingField, Allowed: wantString}},
		{"result of no UUID", `{"type":"invocationresult","invocation_id":"i-2"}`, DecodeError{Frame: TypeInvocationResult, Field: "invocation_id", Kind: KindBadUUID, Allowed: wantUUID}},
		{"chunk without n", `{"type":"chunk","id":"c","of":1,"data":""}`, DecodeError{Frame: TypeChunk, Field: "n", Kind: KindMissingField, Allowed: wantInteger}},
		{"chunk with a fraction", `{"type":"chunk","id":"c","n":1.0,"of":1,"data":""}`, DecodeError{Frame: TypeChunk, Field: "n", Kind: KindBadType, Allowed: wantInteger}},
		{"chunk with a huge number", `{"type":"chunk","id":"c","n":1,"of":99999999999999999999,"data":""}`, DecodeError{Frame: TypeChunk, Field: "of", Kind: KindBadType, Allowed: wantInteger}},
		{"chunk without data", `{"type":"chunk","id":"c","n":1,"of":1}`, DecodeError{Frame: TypeChunk, Field: "data", Kind: KindMissingField, Allowed: wantString}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			frame, err := Decode([]byte(tt.text))
			var got *DecodeError
			if !errors.As(err, &got) {
				t.Fatalf("got %v, %v", frame, err)
			}
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.ErrorCode() != string(tt.want.Kind) || got.Retryable() {
				t.Errorf("code %q, retryable %t", got.ErrorCode(), got.Retryable())
			}
		})
	}
}

func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

func TestDecodeDepthLimit(t *testing.T) {
	t.Parallel()
	text := `{"type":"invokefunction","function_id":"f","data":` + nested(MaxDepth-1) + `}`
	if _, err := Decode([]byte(text)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestDecodeErrorText(t *testing.T) {
	t.Parallel()
	_, err := Decode([]byte(`{"type":"invokefunction","function_id":"f","action":{"type":"secret"}}`))
	want := `protocol: decode "invokefunction" field action.type: bad_value, want void or enqueue`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Opaque members are slices of the input with no room to grow into what follows them.
func TestDecodeAliasing(t *testing.T) {
	t.Parallel()
	text := []byte(`{"type":"invokefunction","function_id":"f","data":{"a":1},"metadata":{"b":2}}`)
	frame, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	call := frame.(*InvokeFunction)
	call.Data = append(call.Data, "XXXXXXXXXXXXX"...)
	if string(call.Metadata) != `{"b":2}` {
		t.Errorf("metadata is now %s", call.Metadata)
	}
	copy(text, strings.Repeat("#", len(text)))
	if call.FunctionID != "f" {
		t.Errorf("strings are copies, got %q", call.FunctionID)
	}
}

func TestResultTolerance(t *testing.T) {
	t.Parallel()
	const malformed = "malformed error body, want " + wantErrorBody
	tests := []struct {
		name    string
		members string
		want    InvocationResult
	}{
		{"result", `"function_id":"f","result":{"a":1}`, InvocationResult{FunctionID: "f", Result: raw(`{"a":1}`)}},
		{"result absent", `"function_id":"f"`, InvocationResult{FunctionID: "f"}},
		{"result null differs from absent", `"function_id":"f","result":null`, InvocationResult{FunctionID: "f", Result: raw(`null`)}},
		{"function_id missing", `"result":3`, InvocationResult{Result: raw(`3`)}},
		{"function_id null", `"function_id":null,"result":3`, InvocationResult{Result: raw(`3`)}},
		{"error null", `"result":1,"error":null`, InvocationResult{Result: raw(`1`)}},
		{"error wins", `"result":1,"error":{"code":"x","message":"y"}`, InvocationResult{Error: &Error{Code: "x", Message: "y"}}},
		{
			"stacktrace kept, extra dropped", `"error":{"code":"x","message":"y","stacktrace":"s","extra":1}`,
			InvocationResult{Error: &Error{Code: "x", Message: "y", Stacktrace: "s"}},
		},
		{"error a string", `"error":"bad"`, InvocationResult{Error: &Error{Code: CodeUnknown, Message: "bad"}}},
		{"error without message", `"error":{"code":"x"}`, InvocationResult{Error: &Error{Code: "x"}}},
		{"error with message null", `"error":{"code":"x","message":null}`, InvocationResult{Error: &Error{Code: "x"}}},
		{"error with a stacktrace that is none", `"error":{"code":"x","message":"y","stacktrace":[1]}`, InvocationResult{Error: &Error{Code: "x", Message: "y"}}},
		{"error without code", `"error":{"message":"y"}`, InvocationResult{Error: &Error{Code: CodeInvocationFailed, Message: "y"}}},
		{"error with message a number", `"error":{"code":"x","message":5}`, InvocationResult{Error: &Error{Code: CodeInvocationFailed, Message: malformed}}},
		{"error empty object", `"error":{}`, InvocationResult{Error: &Error{Code: CodeInvocationFailed, Message: malformed}}},
		{"error a number", `"result":1,"error":5`, InvocationResult{Error: &Error{Code: CodeInvocationFailed, Message: malformed}}},
		{"error false", `"error":false`, InvocationResult{Error: &Error{Code: CodeInvocationFailed, Message: malformed}}},
		{
			"function_id a number", `"function_id":5,"result":1`,
			InvocationResult{Error: &Error{Code: CodeInvocationFailed, Message: `malformed result: protocol: decode "invocationresult" field function_id: bad_type, want a string`}},
		},
		{
			"result twice", `"function_id":"f","result":1,"result":2`,
			InvocationResult{FunctionID: "f", Error: &Error{Code: CodeInvocationFailed, Message: `malformed result: protocol: decode "invocationresult" field result: duplicate_field, want the member once`}},
		},
		{
			"trace context", `"result":1,"traceparent":"00-1","baggage":"z=1"`,
			InvocationResult{Result: raw(`1`), Traceparent: "00-1", Baggage: "z=1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode([]byte(`{"type":"invocationresult","invocation_id":"` + someID + `",` + tt.members + `}`))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.InvocationID = someID
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add(r.frame)
	}
	f.Add([]byte(`{"type":"chunk","id":"c","n":1,"of":2,"data":"\ud83d"}`))
	f.Add([]byte(`{"type":"invocationresult","invocation_id":"` + someID + `","error":[]}`))
	f.Add([]byte(`{"type":"registertrigger","id":"","trigger_type":"","function_id":"","trigger_namespace":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := Decode(text)
		if err != nil {
			var de *DecodeError
			if frame != nil || !errors.As(err, &de) || de.Kind == "" {
				t.Fatalf("got %v, %v", frame, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("accepted what is no JSON: %q", text)
		}
		again, err := Encode(frame)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Decode(again)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		if diff := cmp.Diff(frame, second); diff != "" {
			t.Fatalf("(-decoded +decoded again):\n%s", diff)
		}
	})
}
