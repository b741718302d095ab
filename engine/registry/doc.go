// Package registry knows who serves a function id now, and which workers there are.
//
// # Contract
//
// Per namespace and function id there is a stack of registrations: the built-in one at its base, above it those of
// connections, oldest first. The top one gets every call. Registering again moves a connection's entry to the top;
// unregistering and the end of a connection remove its own entries only, and what was underneath serves again.
//
// Some ids are sticky. Once a connection has registered a sticky id, nothing underneath serves it again when the
// connection that was on top goes or unregisters: calls fail until somebody registers the id anew, or an operator
// releases it. A strict policy thereby never gives way to a lax one because a link was cut. That an id was replaced is
// stored before the replacement serves, and survives a restart.
//
// # Ordering and delivery
//
// Changes are seen by every later lookup. [Registry.Changed] signals that something changed; readers then look for
// themselves, so that bursts coalesce.
//
// # Failure and retry
//
// Only sticky ids touch the store. If it fails, the registration or the release is not made and the error says so.
//
// # Limits
//
// Lookups take a read lock and no memory. Names and descriptions are stripped of control characters and cut at 280
// characters.
package registry
