// Package remote calls functions that a web server backs: a worker registers an id together with a URL, and the bus
// makes the request itself.
//
// # Contract
//
// The invocation object of a registration is {url, method?, timeout_ms?, headers?, auth?}. The request has the data of
// the call as its JSON body and the headers x-iii-Function-Path, x-iii-Invocation-ID, x-iii-Timestamp (unix seconds)
// and, if the call has a trace, x-iii-Trace-ID. Auth is {type: "hmac", secret_key}, {type: "bearer", token_key} or
// {type: "api_key", header, value_key}; the keys name environment variables of the bus. With hmac,
// x-iii-Signature is "sha256=" and the hex HMAC-SHA256 of "<timestamp>:<base64(body)>".
//
// # Ordering and delivery
//
// One request for each call. It is not repeated, but for a kept connection that turns out closed before anything was
// answered. A redirect is an answer like any other and is not followed.
//
// # Failure and retry
//
// A status below 400 is success: an empty body is no value, one that is not JSON is invalid_response. From 400 on the
// error is that of the body {"error": {"code", "message"}}, else http_error. http_request_failed: no answer came in
// time; http_response_failed: the answer broke off; url_validation_failed: the host is at an address that must not be
// reached; secret_not_found. The last two are found at registration where that is possible, and again at every call.
//
// # Limits
//
// Whoever may register functions chooses what the bus connects to and which secret it sends there. Therefore only
// https and only public addresses are reached unless the configuration opens a network, judged by the address that is
// dialled and not by the name, never through a proxy of the environment; the metadata services of clouds are out of
// reach whatever is opened. Auth may name only variables of an allow list, which should hold nothing that may not be
// shown to every such host. Error texts hold the host of a URL, never its path, its query or a secret.
//
// 30 s unless timeout_ms says otherwise (at most 15 min); 20 MiB of answer; 32 headers; [MaxConcurrent] requests at a
// time, further calls wait within their time.
package remote
