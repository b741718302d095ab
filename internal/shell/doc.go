// Package shell reads and changes the working folder and runs commands in it.
//
// # Contract
//
// shell::fs::ls and shell::fs::read see the working folder and nothing else: a
// path or link that leads out of it, or into the harness's own data, is
// refused, also if it changes while it is being opened. What is neither a file
// nor a folder is not opened. The bytes of a file come through a channel.
//
// shell::fs::write, edit, glob and grep keep to the same folder. A write makes
// or replaces a file whole, so that a reader sees the old content or the new
// one; its mode stays. An edit replaces a text that is there once. The files
// that say what agents may do can be read but not written. glob and grep follow
// no links and pass over .git. shell::fs::preview shows what a write or an edit
// would change as of now; what somebody else changes until it runs, it changes
// too, or it fails.
//
// shell::exec runs one command on this machine, in a session and process group
// of its own, without input, and with an environment from which the variables
// of the harness, of the providers and of AWS are taken. What a command may
// reach beyond that is not restricted here: whether it runs is for policy and
// people to decide.
//
// # Failure and retry
//
// Errors are JSON with code, type, message and, where one helps, fix, so that
// a model can act on them. At its time limit, or when the caller gives up, the
// whole process group of a command is killed; at the limit the result says
// timed_out and has what was said so far. What a command leaves running when it
// ends is killed too. Nothing is repeated here.
//
// # Limits
//
// A list has at most 2,000 entries, a search 2,000 hits (200 unless asked for
// more) in 200,000 files, 256 MiB and 20 s. A file that is written has at most
// 4 MiB, a diff that is shown 16 KiB. A command runs at most 30 s and gives at
// most 1 MiB of each output; the first 16 MiB are kept as a blob of the session
// that the call belongs to. A process that leaves its group, as daemons do,
// is not killed; a call does not wait for it.
package shell
