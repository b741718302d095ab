// Package enginetest holds one test suite per port. Every backend of a port
// runs its suite, so that backends cannot drift apart.
//
// # Contract
//
// A suite takes a constructor, which gives it a new and empty backend that
// uses the given clock; the constructor closes it with t.Cleanup. The suite
// demands what the comments of the port promise and nothing more, and runs its
// cases side by side.
package enginetest
