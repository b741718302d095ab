// Package access says who a connection is and what it may do.
//
// # Contract
//
// A token gives a Grant: a principal, and globs for what it may call, register
// and read. Roles have defaults; a token of role worker has only what its own
// globs name. Internal functions are out of reach of every connection.
//
// Tokens are 256 random bits. Only their SHA-256 is stored, under the token's
// id, and compared in constant time; the secret is shown once. A ticket stands
// for a token on one connection of a browser.
//
// # Failure and retry
//
// A token that is unknown, revoked or expired is an *AuthError. A call outside
// the grant is an error FORBIDDEN that names the list to edit.
package access
