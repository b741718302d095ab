// Package approval takes the decisions of people on calls that wait.
//
// # Contract
//
// A decision is a row of scope approvals, made by a conditional create: the
// first one wins, whoever and how many ask at once. It holds the run and the
// hash of function id and arguments that were shown, so that it opens this
// call and no other. Who decided is the caller's principal, or the person that
// a trusted surface acts for.
//
// # Failure and retry
//
// Bad input and a store that fails are answers, not errors: invalid_payload,
// resume_failed. A call that does not wait, and a session that the caller may
// not see, are not_found.
//
// # Limits
//
// A reason has at most 4,000 bytes. A page of the list has at most 200 rows.
package approval
