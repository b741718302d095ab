// Package sdk runs workers written with the public iii SDKs, npm iii-sdk 0.22.1 and PyPI iii-sdk 0.25.0,
// unmodified, against the program of this module. Its tests are the judge of the bus: what a stock
// worker sees must be what the recordings in testdata/frames show, but for what the tests name.
//
// # Contract
//
// `make sdks` installs the two packages, pinned with all they need by node/package-lock.json and
// python/requirements.txt, into a folder of the user's cache. Without it the tests of this package that
// need them are skipped; tests of raw frames need Go alone.
//
// # Scripts
//
// node/worker.mjs and python/worker.py do what they are told on standard input.
package sdk
