// Package redact takes secrets out of what people and machines read: log
// lines, spans, error texts, events and the excerpts of arguments that a
// denial or an approval request shows.
//
// # Contract
//
// There are two profiles.
//
// [Excerpt] makes the short form of a call's arguments. Values under secret
// keys become "<redacted>", strings are clipped to 256 code points and deep
// trees end in "<max-depth>". It is read by someone who decides about the
// call, so beyond secret keys and known secrets it hides only what cannot hold
// a command: no space, quote or shell sign ever disappears behind a mark.
//
// [Telemetry], [Text] and [Name] make what goes into logs, spans and errors.
// They follow a wider list of keys, and look inside strings as well: known
// secret values, credentials in URLs, authorization headers, private keys,
// tokens of well-known shapes and assignments to names that promise a secret.
// The mark is "[REDACTED]".
//
// Known values are those given to [Secrets]. They are found wherever they
// stand, also JSON-escaped, percent-encoded or inside base64.
//
// Order matters to callers: redact first, truncate after. Half a secret is not
// recognised, and half a secret is still a leak.
//
// # Failure and retry
//
// Nothing here fails. JSON stays JSON and keeps the order of its keys and the
// digits of its numbers; what is no JSON is treated as text. Results are valid
// UTF-8.
//
// # Limits
//
// Shapes are a net, not a proof: a secret without a known shape, under a
// harmless name and not given to Secrets, passes. Known values shorter than 8
// characters are not looked for, as they would blot out ordinary words.
//
// All functions are safe for concurrent use.
package redact
