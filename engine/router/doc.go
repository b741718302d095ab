// Package router carries calls from whoever makes them to whoever serves the function now: built-in workers in this
// process and connected workers behind their sockets.
//
// # Contract
//
// [Router.Serve] registers a built-in worker. [Router.Worker] is how it reaches others. The gateway tells the router of
// its connections and of their frames, see [Conn]. A call is known by its invocation id from before it is handed over
// until it is answered, so that no answer comes too early; an answer is taken only from the worker that was given the
// call. Functions that a web server backs are registered like others; [Remote] makes their requests.
//
// Who calls, for whom, until when and under which idempotency key is set here. Whatever a socket writes into these
// members of metadata is taken out first. A socket acts for itself, or for the principal of a call that it was given and
// has not answered: the one that parent_invocation_id names, else one of the same trace.
//
// # Ordering and delivery
//
// Calls run side by side and no order is promised between them. A call is delivered at most once. A repeat of an
// invocation id by the same caller within a minute joins the first: it runs once, and both get the result.
//
// # Failure and retry
//
// Nobody serves the id: function_not_found. Its replacement is away: function_unavailable. The worker goes: its calls end
// with invocation_stopped. The caller stops waiting: TIMEOUT, and the callee goes on; a built-in handler sees its context
// end then. A handler that panics fails with invocation_failed, and neither the panic's text nor its stack reaches the
// caller. The router does not retry, but for the rows of call_results.
//
// A call with a reply address that is not answered in time goes on without its caller, and its result is written as a
// row, once, by a conditional create. Results of sensitive functions are never written: their callers wait.
//
// # Limits
//
// A call that is not answered is forgotten after [Config.MaxAge]. Of answered calls the ids are kept a minute, and
// results as far as they fit [Config.DedupBytes]. The queue of an outbound connection is bounded by the gateway: who
// sends to a slow receiver waits.
package router
