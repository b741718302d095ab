// Package otlp takes the telemetry that workers send over the bus.
//
// # Contract
//
// A message is four letters and OTLP as JSON: OTLP for spans, MTRC for metrics,
// LOGS for logs. It comes as a binary frame on a socket of its own ([Collector]
// is the handler of /otel) or on a worker's socket ([Collector.Receive]). Text
// frames are ignored.
//
// Of metrics the gauges iii.worker.* are kept, the last value of each for the
// worker that its attribute worker.id names; on a worker's own socket that is
// the worker itself, whatever it says. Spans go, with secrets covered, to the
// [Forwarder] if there is one. Logs, and metrics of other names, are checked and
// dropped.
//
// # Failure and retry
//
// Nothing is answered and nothing is repeated. What cannot be read is counted
// and logged at level debug, and never touches the worker's socket. A collector
// that is slow or away costs spans, oldest first, not memory.
//
// # Limits
//
// Messages of 4 MiB. Gauges of 10,000 workers, which are forgotten after two
// minutes. 64 messages wait to be forwarded.
package otlp
