// Package shell reads the working folder and runs commands in it.
//
// # Contract
//
// shell::fs::ls and shell::fs::read see the working folder and nothing else: a
// path or link that leads out of it, or into the harness's own data, is
// refused. shell::exec runs one command in a process group of its own, with an
// environment from which the harness's, the providers' and AWS's variables are
// taken.
//
// # Failure and retry
//
// Errors are JSON with code, type, message and, where one helps, fix, so that
// a model can act on them. At its time limit the whole process group is
// killed and the result says timed_out.
//
// # Limits
//
// A list has at most 2,000 entries. A command runs at most 30 s and gives at
// most 1 MiB of each output; the rest is kept as a blob of the session, up to
// 16 MiB.
package shell
