package protocol

// Codes of Error that the bus itself uses. Functions add codes of their own.
const (
	// Calls.
	CodeInvocationFailed     = "invocation_failed"  // the handler failed, or its result was malformed
	CodeInvocationStopped    = "invocation_stopped" // the worker that had the call is gone
	CodeInvocationError      = "invocation_error"   // failure inside the bus
	CodeFunctionNotFound     = "function_not_found"
	CodeFunctionNotInvokable = "function_not_invokable" // HTTP-backed, called as a local handler
	CodeChannelSendFailed    = "channel_send_failed"    // the worker could not be sent the call
	CodeEnqueueError         = "enqueue_error"
	CodeForbidden            = "FORBIDDEN"
	CodeInvalidNamespace     = "INVALID_NAMESPACE"
	CodeDeserialization      = "deserialization_error" // bad input of a built-in
	CodeSerialization        = "serialization_error"   // bad output of a built-in
	CodeTimeoutClient        = "TIMEOUT"               // made by SDKs that stopped waiting
	CodeTimeout              = "timeout"
	CodeUnknown              = "UNKNOWN" // a failure without a code

	// Registration, discovery, channels.
	CodeTriggerRegistrationFailed = "trigger_registration_failed"
	CodeTriggerTypeNotFound       = "trigger_type_not_found"
	CodeUnregisterFailed          = "unregister_failed"
	CodeNotFound                  = "NOT_FOUND"
	CodeInvalidArguments          = "INVALID_ARGUMENTS"
	CodeChannelsUnavailable       = "channels_unavailable"

	// HTTP-backed functions and the http trigger.
	CodeHTTPError           = "http_error" // status 400 and above
	CodeHTTPRequestFailed   = "http_request_failed"
	CodeHTTPResponseFailed  = "http_response_failed"
	CodeInvalidResponse     = "invalid_response"
	CodeURLValidationFailed = "url_validation_failed"
	CodeSecretNotFound      = "secret_not_found"
	CodeConditionNotMet     = "CONDITION_NOT_MET"
	CodeMiddlewareTimeout   = "MIDDLEWARE_TIMEOUT"

	// state::* and stream::*.
	CodeConflict             = "CONFLICT" // the expected version is not the stored one
	CodeValueTooLarge        = "VALUE_TOO_LARGE"
	CodeStateSet             = "SET_ERROR"
	CodeStateGet             = "GET_ERROR"
	CodeStateDelete          = "DELETE_ERROR"
	CodeStateUpdate          = "UPDATE_ERROR"
	CodeStateList            = "LIST_ERROR"
	CodeStateListGroups      = "LIST_GROUPS_ERROR"
	CodeStreamSet            = "STREAM_SET_ERROR"
	CodeStreamGet            = "STREAM_GET_ERROR"
	CodeStreamDelete         = "STREAM_DELETE_ERROR"
	CodeStreamGetGroup       = "STREAM_GET_GROUP_ERROR"
	CodeStreamListGroups     = "STREAM_LIST_GROUPS_ERROR"
	CodeStreamListAll        = "STREAM_LIST_ALL_ERROR"
	CodeStreamSend           = "STREAM_SEND_ERROR"
	CodeStreamUpdate         = "STREAM_UPDATE_ERROR"
	CodeJSON                 = "JSON_ERROR"
	CodeMemoryExporterNotSet = "memory_exporter_not_enabled"

	// Topics and queues.
	CodeTopicNotSet          = "topic_not_set"
	CodeTopicRequired        = "topic_required"
	CodeQueueNotSet          = "queue_not_set"
	CodeMessageIDNotSet      = "message_id_not_set"
	CodeRedriveFailed        = "redrive_failed"
	CodeRedriveMessageFailed = "redrive_message_failed"
	CodeDiscardMessageFailed = "discard_message_failed"

	// configuration::*.
	CodeNotRegistered     = "NOT_REGISTERED"
	CodeInvalidID         = "INVALID_ID"
	CodeSchemaInvalid     = "SCHEMA_INVALID"
	CodeSchemaUnavailable = "SCHEMA_UNAVAILABLE"
	CodeExpandFailed      = "EXPAND_FAILED"
	CodeAdapterError      = "ADAPTER_ERROR"
)
