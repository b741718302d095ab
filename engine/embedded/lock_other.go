//go:build !unix

package embedded

import "os"

// tryLock has nothing to do: bbolt takes its own lock.
func tryLock(*os.File) (bool, error) { return true, nil }
