// Package web serves the trigger type http: functions as HTTP endpoints.
//
// # Contract
//
// The config of a trigger is {api_path, http_method?, condition_function_id?, middleware_function_ids?}. Segments of the
// path that begin with a colon match any one segment; a literal one goes first. The method is GET unless it says
// otherwise, and GET answers HEAD as well where nothing else does. OPTIONS has no meaning of its own. The function gets
//
//	{query_params, path_params, headers, path, method, body, trigger: {type, path, method}, request_body, response}
//
// and the metadata of the trigger. path is that of the config; the maps have one value for each name: the last of a
// query, all of a header joined as HTTP joins them. body is what a request of a JSON type holds, null if that is no
// JSON. request_body is a channel with the bytes of any body, response one for the answer; both are absent where the bus
// has no channels.
//
// The answer is the first of two: a result {status_code? = 200, headers?, body? = {}} with headers as a map or a list of
// "Name: value", or the first binary message on the response channel, which begins the body. Text messages before it set
// status and headers: {"type": "set_status", "status_code"}, {"type": "set_headers", "headers"}. A body that is a text
// goes out as it is if its content-type is not JSON. A result of null leaves the answer to the channel; if nothing comes
// there either, the answer is 204.
//
// # Ordering and delivery
//
// First the middleware of the configuration, then the condition, the middleware of the route, the function: each once,
// for the principal of the binding. Middleware gets {phase: "preHandler", request: {path_params, query_params, headers,
// method}, context: {}} and answers {"action": "continue"} or {"action": "respond", "response": {...}}; anything else
// fails the request. traceparent and baggage of a request continue in its calls; tracestate, for which the bus has no
// place, is among the headers.
//
// A route that is bound again is served by the latest binding; when that goes, by the one before. Only the principal that
// has a route may bind it again. A path that differs from another of its method in the names of its parameters alone is
// refused.
//
// # Failure and retry
//
// Errors are {"error": {"code", "message", "error_id"?}}. 404 NOT_FOUND; 405 with the allowed methods and no body; 422
// CONDITION_NOT_MET with "skipped": true; 500 with the code of what failed. The message of a failure that its function
// did not give a code of its own stays in the log, under error_id. 504 MIDDLEWARE_TIMEOUT or TIMEOUT when no answer has
// begun in 30 s. 413, 408 and 503 for the limits below. An answer that has begun and cannot go on is cut, so that the
// client sees it is not whole. Nothing is repeated. A panic is a 500.
//
// # Limits
//
// Routes are public: whoever reaches the address may call them, without a token, and what they may do is what the
// function allows. This also holds for web pages of any origin, but the server sends no CORS headers and refuses
// preflights unless a route answers OPTIONS, so that a page can read nothing and send no JSON that a route does not let
// it. [ForHosts] keeps away pages that had a name pointed to this machine. Paths below /_harness/ are the server's own.
//
// JSON bodies 10 MiB, other bodies 64 MiB; 512 requests at a time, with 256 MiB of bodies in memory; 30 s for each piece
// of a body that the client sends or takes; 4096 routes of 64 segments; 100 headers of an answer.
package web
