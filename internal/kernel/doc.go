// Package kernel is the rules that stand in front of every policy: what an
// agent may never call, and what it may always read.
//
// # Contract
//
// Denies are checked before any policy worker is asked and hold whatever it
// would say, also where there is none. Allows count only where the permissions
// file says nothing. The rules are data; no file can change them.
package kernel
