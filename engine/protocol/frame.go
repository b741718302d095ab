package protocol

// Type is the value of a frame's member "type".
type Type string

// The frame types. The comment says who sends it: a worker (W), the bus (B), or both.
const (
	TypeRegisterFunction          Type = "registerfunction"          // W
	TypeUnregisterFunction        Type = "unregisterfunction"        // W
	TypeRegisterTrigger           Type = "registertrigger"           // W; B to the provider of the trigger type
	TypeUnregisterTrigger         Type = "unregistertrigger"         // W; B to the provider of the trigger type
	TypeTriggerRegistrationResult Type = "triggerregistrationresult" // W as provider; B only with an error
	TypeRegisterTriggerType       Type = "registertriggertype"       // W
	TypeUnregisterTriggerType     Type = "unregistertriggertype"     // W
	TypeRegisterService           Type = "registerservice"           // W
	TypeInvokeFunction            Type = "invokefunction"            // W, B
	TypeInvocationResult          Type = "invocationresult"          // W, B
	TypeReattach                  Type = "reattach"                  // W
	TypeWorkerRegistered          Type = "workerregistered"          // B
	TypeRegistrationRejected      Type = "registrationrejected"      // B
	TypePing                      Type = "ping"                      // W, B
	TypePong                      Type = "pong"                      // W, B
	TypeChunk                     Type = "chunk"                     // W, B; only where both ends agreed on chunks
)

// Frame is one message of the bus. The frames of this package are the only implementations, always as pointers.
type Frame interface {
	// Type returns the value of the member "type".
	Type() Type

	encode(*encoder)
}

// Ping asks for a Pong.
type Ping struct{}

// Pong answers a Ping and asks for nothing.
type Pong struct{}

// Chunk is one piece of a frame that is too large for one message. See [Split] and [Assembler].
type Chunk struct {
	ID   string // names the message; unique on the connection for ChunkTTL
	N    int    // number of the piece, from 1
	Of   int    // how many pieces there are
	Data string // piece of the frame's JSON text, at most MaxChunkData bytes
}

// Type returns TypePing.
func (*Ping) Type() Type { return TypePing }

// Type returns TypePong.
func (*Pong) Type() Type { return TypePong }

// Type returns TypeChunk.
func (*Chunk) Type() Type { return TypeChunk }
