// Package cron provides the trigger type of that name: it calls a function at the times of an expression.
//
// # Contract
//
// An expression has six fields, second, minute, hour, day of month, month, day of week, or a seventh, the year from 1970
// to 2100. All times are UTC. A field is a list of * (or ?), values, ranges a-b, and any of these with a step /n, where
// a/n goes from a to the end. Months and days of the week also have names. Days of the week count from 1, Sunday, to 7;
// a time must match both day fields. @yearly, @monthly, @weekly, @daily and @hourly stand for their expressions.
//
// # Ordering and delivery
//
// At most once a time: a time that passes while the function runs, or while the bus is down, is skipped. The runs of one
// job do not overlap, because the next time is looked for when the function has answered.
//
// # Failure and retry
//
// A run that fails is logged, and the next time is waited for.
package cron
