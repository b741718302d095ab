// Package telemetry gives every function its span and carries one trace
// through calls, queues, timers and state.
//
// # Contract
//
// A handler wrapped by Wrap runs in a SERVER span harness.<function_id> that
// continues the traceparent of its call. Session, message and function ids
// travel as baggage and stand as attributes on every span below. The call that
// the handler sees carries the new span as its traceparent, so that whatever
// it calls, queues or writes goes on in the same trace.
//
// Payloads are recorded as sizes and hashes; III_DISABLE_TRACE_PAYLOADS=0
// records them, redacted first and cut after. What a function marked sensitive
// takes and gives is never recorded. OTEL_ENABLED=false leaves handlers alone.
//
// # Failure and retry
//
// Exporting never fails a call. A panic in a handler is recorded and raised
// again for the host to contain.
package telemetry
