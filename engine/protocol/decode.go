package protocol

import "unicode/utf8"

const wantFrame = "one JSON object in UTF-8, at most 1000 levels deep"

const maxReportedType = 64

// Decode reads one frame. The error is a *DecodeError. Opaque members of the frame are slices of text: do not change it
// while the frame is in use.
func Decode(text []byte) (Frame, error) {
	r, ok := openObject(text, 0)
	if !ok || !utf8.Valid(text) {
		return nil, &DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}
	}
	var f fields
	var m member
	for r.next(&m) {
		f.add(&m)
	}
	if !r.whole() {
		return nil, &DecodeError{Kind: KindInvalidJSON, Allowed: wantFrame}
	}
	f.frame = Type(f.required(fieldType))
	if f.err != nil {
		return nil, f.err
	}
	frame := build(&f)
	if f.err != nil {
		return nil, f.err
	}
	return frame, nil
}

// build makes the frame of the type named by f. The result counts only if f.err is nil.
func build(f *fields) Frame {
	switch f.frame {
	case TypeInvokeFunction:
		return buildInvokeFunction(f)
	case TypeInvocationResult:
		return buildInvocationResult(f)
	case TypeRegisterFunction:
		return &RegisterFunction{
			ID: f.required(fieldID), Description: f.text(fieldDescription),
			RequestFormat: f.opaque(fieldRequestFormat), ResponseFormat: f.opaque(fieldResponseFormat),
			Metadata: f.opaque(fieldMetadata), Invocation: f.object(fieldInvocation),
		}
	case TypeUnregisterFunction:
		return &UnregisterFunction{ID: f.required(fieldID)}
	case TypeRegisterTrigger:
		return buildRegisterTrigger(f)
	case TypeUnregisterTrigger:
		return &UnregisterTrigger{ID: f.required(fieldID), TriggerType: f.text(fieldTriggerType)}
	case TypeTriggerRegistrationResult:
		return buildTriggerRegistrationResult(f)
	case TypeRegisterTriggerType:
		return &RegisterTriggerType{
			ID: f.required(fieldID), Description: f.required(fieldDescription),
			TriggerRequestFormat: f.opaque(fieldTriggerRequestFormat), CallRequestFormat: f.opaque(fieldCallRequestFormat),
			ConfigSchema: f.opaque(fieldConfigSchema), Namespace: f.optional(fieldNamespace),
		}
	case TypeUnregisterTriggerType:
		return &UnregisterTriggerType{ID: f.required(fieldID), Description: f.text(fieldDescription)}
	case TypeRegisterService:
		return &RegisterService{
			ID: f.required(fieldID), Name: f.text(fieldName),
			Description: f.text(fieldDescription), ParentServiceID: f.text(fieldParentServiceID),
		}
	case TypeReattach:
		return &Reattach{PreviousWorkerID: f.required(fieldPreviousWorkerID), ReattachToken: f.text(fieldReattachToken)}
	case TypeWorkerRegistered:
		return &WorkerRegistered{WorkerID: f.required(fieldWorkerID), ReattachToken: f.text(fieldReattachToken)}
	case TypeRegistrationRejected:
		return &RegistrationRejected{
			Code: f.required(fieldCode), Namespace: f.required(fieldNamespace), WorkerName: f.text(fieldWorkerName),
			FunctionID: f.text(fieldFunctionID), OwnerWorkerID: f.required(fieldOwnerWorkerID),
		}
	case TypePing:
		return &Ping{}
	case TypePong:
		return &Pong{}
	case TypeChunk:
		return &Chunk{ID: f.required(fieldID), N: f.integer(fieldN), Of: f.integer(fieldOf), Data: f.required(fieldData)}
	}
	f.frame = f.frame[:min(len(f.frame), maxReportedType)]
	f.fail(fieldType, KindUnknownType, "a frame type of the bus")
	return nil
}
