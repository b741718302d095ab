// Package trigger knows which functions are to be called when something happens, and calls them.
//
// # Contract
//
// A binding names a trigger type, a config, and a function. Bindings come from the manifests of built-in workers, from
// engine::register_trigger, where they are stored and outlive whoever made them, or from connections, with which they
// end. [Table] holds them and gives each to who provides its type: the bus itself by a [Provider], or the worker that
// declared the type last. A binding of a type that nobody provides is parked: it is kept and shown, and does nothing. So
// is one that its provider refuses, and a stored one whose maker's token was revoked or has expired.
//
// [Dispatcher] calls the functions of the bus's own types, for the principal that made the binding. A condition function
// is called with the payload first. Only the answer false keeps the function from being called. State and stream, whose
// calls carry the trace of the write, and the types that tell of functions and workers are provided here.
//
// Bindings of clients and approvers on streams get only the events of sessions that they own, and so do those of workers
// on the streams of sessions.
//
// # Providers
//
// A type is looked for in the namespace that the binding names, or else in that of its connection and then in the default
// one. The last live registration of a type has the bindings; when it goes they return to the one before. A worker hears
// of each binding and of its end in their order, of the latest only if it is slow, and again when it declares the type
// again; it must tolerate repeats. The bus does not hand the bindings of its built-in workers to others.
//
// What a connection bound and provides follows it to the next one by [Table.Move], and ends by [Table.Drop].
//
// # Ordering and delivery
//
// At least once. The changes of one state key, and those of one stream group, reach a stored binding in their order, one
// at a time. So do those of a connection's binding, as long as the connection lasts, but apart from all others: a slow
// connection holds nobody up. A handler must tolerate repeats. [Dispatcher.Fire], for other providers, calls once.
//
// # Failure and retry
//
// A condition or a function that fails is called again [Attempts] times in all, with growing pauses, and then given up
// with an alarm. A function that nobody serves, or that the binding may not call, is given up at once.
//
// # Limits
//
// A connection's binding holds [MaxWaiting] changes; what comes beyond is dropped with an alarm. A connection has at most
// [MaxBindings] bindings, of at most [MaxConfig] bytes each, and provides at most [MaxTypes] types.
package trigger
