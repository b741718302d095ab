// Package turn is the orchestrator: it takes a run's messages, asks the model,
// runs the calls it makes under policy, waits for people where it must, and
// ends with every call answered and every event told.
//
// # Contract
//
// [New] gives the functions of the worker turn-orchestrator. A session has one
// record ([step.Record]); it alone says where the turn is. run::start writes it
// and sends one message to the queue turn-step; turn::step takes the turn and
// runs transition after transition until it ends or waits. Everything else
// (approvals, stored results, timers, the sweep) only wakes it.
//
// # Ordering and delivery
//
// Each transition ends in one conditional write of the record. Entries, rows,
// events and wakes that it owes are written with it, delivered beside the next
// step in that order, and cleared by the next write; a step that takes over
// delivers what is left, under the same ids. A call is marked started before it
// is dispatched: that write is the fence against a second consumer. Results
// are stored in the order of the calls.
//
// # Failure and retry
//
// Transient errors go back to the queue with nothing lost. Any other error of a
// transition ends the run as failed. A message that was received too often ends
// it as failed as well ([Turn.Endpoints], turn::on_dead_letter). A call that was
// started and lost is repeated only if its target is idempotent.
//
// Whatever stands between a model and a call fails closed: a policy or a hook
// that cannot be asked is a denial.
//
// # Limits
//
// See [Config].
package turn
