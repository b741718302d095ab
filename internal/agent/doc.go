// Package agent holds the wire types that the jobs of the harness share:
// messages and their blocks, what a provider streams, the events of a session
// and the rows that one job writes and another reads.
package agent
