// Package trigger knows which functions are to be called when state or streams change, and calls them.
//
// # Contract
//
// A binding names a trigger type, a config, and a function. Bindings come from the manifests of built-in workers, from
// engine::register_trigger, where they are stored and outlive whoever made them, or from connections, with which they
// end. [Table] holds them; [Dispatcher] calls their functions, for the principal that made the binding and under the
// trace of the write. A binding of a type that nobody provides is parked: it is kept and shown, and does nothing.
//
// A condition function is called with the payload first. Only the answer false keeps the function from being called.
//
// Bindings of clients and approvers on streams get only the events of sessions that they own, and so do those of workers
// on the streams of sessions.
//
// # Ordering and delivery
//
// At least once. The changes of one state key, and those of one stream group, reach a stored binding in their order, one
// at a time. So do those of a connection's binding, as long as the connection lasts, but apart from all others: a slow
// connection holds nobody up. A handler must tolerate repeats.
//
// # Failure and retry
//
// A condition or a function that fails is called again [Attempts] times in all, with growing pauses, and then given up
// with an alarm. A function that nobody serves, or that the binding may not call, is given up at once.
//
// # Limits
//
// A connection's binding holds [MaxWaiting] changes; what comes beyond is dropped with an alarm.
package trigger
