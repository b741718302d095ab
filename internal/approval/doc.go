// Package approval takes the decisions of people on calls that wait.
//
// # Contract
//
// A decision is a row of scope approvals, made by a conditional create: the
// first one wins, whoever and how many ask at once. It holds the run and the
// hash of function id and arguments that were shown, as the turn names them, so
// that it opens this call and no other; a row of another run or of other
// arguments is replaced. Who decided is the caller's principal, or the person
// that a trusted surface acts for.
//
// An operator decides on every call, an owner on those of its sessions, an
// approver on those of the sessions that its globs name. To everybody else
// session and call do not exist.
//
// A decision to allow may come with a standing grant: from then on the turn
// lets the same call, by function and arguments, pass in this session without
// asking. It is stored in the transaction of the decision, listed, revocable,
// and beats no deny.
//
// # Ordering and delivery
//
// The control item of the session is raised after the row is stored, so that a
// running step looks; the row itself wakes a turn that is parked. A repeat of a
// decision on a call that still waits changes nothing, but raises again.
//
// # Failure and retry
//
// Bad input and a store that fails are answers, not errors: invalid_payload,
// resume_failed. A call that does not wait, and a session that the caller may
// not see, are not_found. A write whose answer was lost is looked up.
//
// # Limits
//
// A reason has at most 4,000 characters, an id 256 bytes. A page of the list
// has at most 200 rows.
package approval
