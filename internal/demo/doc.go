// Package demo serves demo::time, the smallest function there is: something to
// call on a first day.
//
// # Contract
//
// demo::time gives the moment in RFC 3339, in a time zone that the caller may
// name, and in epoch milliseconds.
package demo
