// Package config reads config.yaml, which says which workers serve and how.
//
// # Contract
//
// Every key has a default; an absent file is the default config. Unknown keys
// and workers, wrong types and combinations that could not work are errors
// that name file, line or field, and what is allowed.
package config
