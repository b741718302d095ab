// Package credential finds the keys of model providers.
//
// # Contract
//
// A stored credential wins over an environment variable; an empty variable
// counts as none. Only auth::get_token gives a secret away: it is marked
// sensitive, agents cannot call it, and a worker gets the providers that its
// token names.
//
// # Failure and retry
//
// A store that cannot be read is an error, never "no credential": a provider
// must not fall back to a key that nobody meant.
package credential
