// Package credential finds the keys of model providers.
//
// # Contract
//
// A stored credential wins over an environment variable; an empty variable
// counts as none. Only auth::get_token gives a secret away: it is marked
// sensitive, agents cannot call it, and a worker gets the providers that its
// token names. Storing and deleting are the operator's.
//
// Every secret value that passes is made known to redaction before it goes on.
//
// # Failure and retry
//
// A store that cannot be read is an error, never "no credential": a provider
// must not fall back to a key that nobody meant. No error text holds a value.
//
// # Limits
//
// A credential has at most 64 KiB of JSON. A variable gives an API key, never
// an OAuth grant.
package credential
