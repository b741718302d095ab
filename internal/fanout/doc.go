// Package fanout holds the functions of the worker harness: the door for turns,
// the subscriptions of viewers, and the triggers that feed them.
//
// # Contract
//
// harness::trigger calls run::start and puts its answer into an HTTP-like
// envelope. ui::subscribe and ui::unsubscribe keep the subscriptions of the
// connection that calls; harness::fanout::agent_event_handler and
// harness::fanout::session_created serve the stream and state triggers behind
// them. How events reach a viewer is the matter of package viewer.
//
// A subscription to a session needs the session to exist: make it first
// (session-tree::create or ensure), then subscribe, then start the run. A
// session of somebody else, and one that does not exist, answer alike:
// not_found.
//
// # Ordering and delivery
//
// When ui::subscribe answers, the events up to the position that it names were
// posted, in front of the answer, unless the replay took longer than its limit;
// later ones follow. After a reset nothing was replayed and the subscription is
// live behind that position: load the session anew, then go on from there.
//
// # Failure and retry
//
// ui::subscribe and ui::unsubscribe may be repeated: the last one counts. The
// trigger functions may be delivered more than once.
//
// # Limits
//
// A browser id has at most 128 bytes.
package fanout
