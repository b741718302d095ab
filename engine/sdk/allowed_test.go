package sdk

// Why ours may differ from the engine, by the sections of the protocol.
const (
	owners     = "2.2: the most recent live registration serves, and gives way again after the grace"
	reserved   = "2.2, 11: ids of the bus are protected"
	absentData = "2.1: a call without data is served"
	nullData   = "11: data that is null is taken for {}"
	validated  = "11: a bad config is refused, and no input ends a connection's task"
	tolerant   = "11: what is wrong with a result is mended; a result is taken from the called worker alone"
	once       = "11: an invocation_id that comes twice runs once, and both waiters get the result"
	docs       = "6.2: doc_url is optional; the engine's names its own pages"
	others     = "16: the server of the recording had served other clients before"
	builtins   = "6.1: the workers of the bus itself are other ones"
	urls       = "2.1: an error tells of a URL no more than its host, since the rest may be a secret"
	refused    = "2.2: who registers what is refused hears of it"
	names      = "named by no section: scopes and keys have at least one byte, since no table of AWS keeps an empty one"
	comesLater = "configuration comes later"
	graced     = "2.2: a worker is gone when its grace has ended; who closes before hears nothing of it"
	ownOnly    = "11: only who registered a trigger unregisters it"
	badConfig  = "11: a bad config is refused"
	byQueue    = "6.4: the primary key of a topic is its queue, too"
	unseen     = "the call was made on a connection that is not in the recording"
)

// differences are the places where ours may differ, by reason. got is what
// ours is there, "" for nothing; ids that only a run has are <id>.
var differences = map[string][]allowed{
	absentData: {
		{"01-connect-raw A", "extra", `{"type":"invocationresult","invocation_id":"<id>","function_id":"engine::functions::list","result":{"functions":[{"function_id":"…`},
	},
	tolerant: {
		{"04-trigger-sync:111", "missing", ""},
		{"04-trigger-sync:139", ".error.code", `"UNKNOWN"`},
		{"04-trigger-sync:139", ".error.message", `"bad"`},
		{"04-trigger-sync A", "extra", `{"type":"invocationresult","invocation_id":"93a2f58c-a455-4db5-bdad-a6832a4e4f30","function_id":"ora::manual","error":{"code":"x","message":""}}`},
		{"04-trigger-sync A", "extra", `{"type":"invocationresult","invocation_id":"ce6dd2ce-1158-41d8-ac55-537cc0f1d7da","function_id":"ora::manual","result":3}`},
	},
	once: {
		{"04-trigger-sync:115", "missing", ""},
		{"04-trigger-sync:117", "missing", ""},
		{"04-trigger-sync A", "extra", `{"type":"invocationresult","invocation_id":"b89379d4-31e1-4179-aae4-62ad6181ca44","function_id":"ora::manual","result":"x"}`},
	},
	nullData: {
		{"16-lists:35", ".error", ""},
		{"16-lists:35", ".result", `{"functions":[{"description":"…`},
		{"17-state:40", ".error.message", "\"Failed to deserialize input for state::set: missing field `scope`\""},
	},
	builtins: {
		{"16-lists:56", ".result.worker_name", `"engine"`},
		{"16-lists:56", ".result.description", ""},
		{"16-lists:83", ".result.description", `"Calls a function when a value of the state changes"`},
		{"16-lists:130", ".result.trigger.description", `"Calls a function when a value of the state changes"`},
		{"16-lists:56", ".result.metadata", `{"idempotent":true}`},
		{"16-lists:68", ".error", `{"code":"NOT_FOUND","message":"Worker 'iii-state' is not connected."}`},
		{"16-lists:68", ".result", ""},
		{"16-lists:83", ".result.worker_name", `"engine"`},
		{"16-lists:130", ".result.trigger.worker_name", `"engine"`},
	},
	docs: {
		{"17-state:86", ".result.errors[0].doc_url", ""},
		{"17-state:88", ".result.errors[0].doc_url", ""},
		{"17-state:90", ".result.errors[0].doc_url", ""},
		{"17-state:92", ".result.errors[0].doc_url", ""},
		{"17-state:94", ".result.errors[0].doc_url", ""},
		{"17-state:96", ".result.errors[0].doc_url", ""},
		{"17-state:104", ".result.errors[0].doc_url", ""},
		{"17-state:108", ".result.errors[0].doc_url", ""},
		{"17-state:110", ".result.errors[0].doc_url", ""},
		{"17-state:114", ".result.errors[0].doc_url", ""},
		{"18-stream:31", ".result.errors[0].doc_url", ""},
	},
	others: {
		{"18-stream:25", ".result.count", "1"},
		{"18-stream:25", ".result.stream", `[{"groups":["g"],"id":"ora-c2abb2a8"}]`},
		{"17-state:29", ".result.groups", `["ora-f4249618"]`},
	},
	urls: {
		{"22-http-backed:31", ".error.message", `"error sending request for url (http://127.0.0.1:49321): operation timed out"`},
		{"22-http-backed:44", ".error.message", `"error sending request for url (http://127.0.0.1:1): connection refused"`},
	},
	refused: {
		{"22-http-backed B", "extra", `{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"default","function_id":"ora::hauth","owner_worker_id":""}`},
		{"22-http-backed B", "extra", `{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"default","function_id":"ora::hbad","owner_worker_id":""}`},
	},
	names: {
		{"17-state:52", ".error", `{"code":"SET_ERROR","message":"state: invalid scope: must be 1 to 512 bytes of UTF-8 without NUL"}`},
		{"17-state:52", ".result", ""},
		{"17-state:54", ".error", `{"code":"GET_ERROR","message":"state: invalid scope: must be 1 to 512 bytes of UTF-8 without NUL"}`},
		{"17-state:54", ".result", ""},
	},
	comesLater: {
		{"11-trigger-fire:115", "missing", ""},
		{"11-trigger-fire:119", "missing", ""},
	},
	graced: {
		{"10-register-triggers:124", "missing", ""},
		{"11-trigger-fire:148", "missing", ""},
	},
	ownOnly: {
		{"10-register-triggers:116", ".error", ""},
		{"10-register-triggers:116", ".result", `{"config":{"scope":"foreign"},"function":{"function_id":"ora::t",…`},
	},
	badConfig: {
		{"10-register-triggers A", "extra", "{\"type\":\"triggerregistrationresult\",\"id\":\"<id>\",\"trigger_type\":\"durable:subscriber\",\"function_id\":\"ora::t\",\"error\":{\"code\":\"trigger_registration_failed\",\"message\":\"Failed to parse trigger config: missing field `topic`\"}}"},
		{"10-register-triggers A", "extra", "{\"type\":\"triggerregistrationresult\",\"id\":\"<id>\",\"trigger_type\":\"subscribe\",\"function_id\":\"ora::t\",\"error\":{\"code\":\"trigger_registration_failed\",\"message\":\"Failed to parse trigger config: missing field `topic`\"}}"},
		{"10-register-triggers:109", ".result.registered_triggers", `[{"config":{},"config_summary":"{}","function_id":"ora::t","id":"<id>","trigger_type":"state","worker_name":"ora-a"},{"config":{"topic":"t1"},…`},
		{"10-register-triggers A", "extra", `{"type":"triggerregistrationresult","id":"<id>","trigger_type":"http","function_id":"ora::t","error":{"code":"trigger_registration_failed","message":"http_method must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}}`},
	},
	byQueue: {
		{"11-trigger-fire:107", ".error", ""},
		{"11-trigger-fire A", "extra", `{"data":1,"function_id":"ora::on","invocation_id":"<id>","type":"invokefunction"}`},
	},
	unseen: {
		{"23-limits:31", "missing", ""},
	},
	reserved: {
		{"26-builtin-shadow B", "extra", `{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"default","function_id":"engine::foo","owner_worker_id":""}`},
		{"26-builtin-shadow B", "extra", `{"type":"registrationrejected","code":"FUNCTION_NAMESPACE_CONFLICT","namespace":"default","function_id":"engine::workers::list","owner_worker_id":""}`},
		{"26-builtin-shadow:14", "missing", ""},
		{"26-builtin-shadow:16", ".error", `{"code":"function_not_found","message":"Function engine::foo not found in namespace default."}`},
		{"26-builtin-shadow:16", ".result", ""},
		{"26-builtin-shadow:22", "missing", ""},
		{"26-builtin-shadow:24", ".result", `{"workers":[{"…`},
	},
	owners: {
		{"26-builtin-shadow:26", ".result.worker_name", `"ora-b"`},
		{"26-builtin-shadow:31", ".error", ""},
		{"26-builtin-shadow:33", ".error", ""},
		{"26-builtin-shadow:33", ".result", `{"workers":[{"…`},
	},
	validated: {
		{"32-stream-trigger-panic A", "extra", "{\"type\":\"triggerregistrationresult\",\"id\":\"<id>\",\"trigger_type\":\"stream\",\"function_id\":\"ora::zombie\",\"error\":{\"code\":\"trigger_registration_failed\",\"message\":\"Failed to parse trigger config: missing field `stream_name`\"}}"},
		{"32-stream-trigger-panic A", "extra", `{"type":"invocationresult","invocation_id":"<id>","function_id":"engine::baggage::get_all","result":{"baggage":{}}}`},
		{"32-stream-trigger-panic B", "extra", `{"type":"invocationresult","invocation_id":"86bb11d6-0747-4c07-ae1c-38803566ef97","function_id":"ora::zombie","result":"from A"}`},
		{"32-stream-trigger-panic:21", "missing", ""},
		{"32-stream-trigger-panic:23", "missing", ""},
		{"32-stream-trigger-panic B", "extra", `{"data":{"_caller_worker_id":"262323d5-1084-4a58-99d0-77bc014c16fa"},"function_id":"ora::zombie","invocation_id":"<id>","type":"invokefunction"}`},
		{"32-stream-trigger-panic:25", ".result.workers", "[]"},
		{"32-stream-trigger-panic:27", ".result.workers", "[]"},
	},
}
