package sdk

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Files are the scripts and pins, below node and python.
//
//go:embed node/*.mjs node/package.json node/package-lock.json python/*.py python/requirements.txt
var Files embed.FS

// Language is one of the stock SDKs.
type Language string

// The SDKs, by the language they are for.
const (
	Node   Language = "node"
	Python Language = "python"
)

// Languages are all of them.
var Languages = []Language{Node, Python}

// Pins are the files that say what is installed.
func (l Language) Pins() []string {
	if l == Node {
		return []string{"node/package.json", "node/package-lock.json"}
	}
	return []string{"python/requirements.txt"}
}

// Folder is where the SDK is installed. Its name changes with the pins.
func (l Language) Folder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("sdk: no cache folder: %w", err)
	}
	sum := sha256.New()
	for _, name := range l.Pins() {
		b, err := Files.ReadFile(name)
		if err != nil {
			return "", err
		}
		sum.Write(b)
	}
	return filepath.Join(cache, "harness", "sdk", string(l)+"-"+hex.EncodeToString(sum.Sum(nil)[:6])), nil
}

// Done is the file in Folder that is written when everything is there.
const Done = "installed"

// NotInstalledError reports an SDK that is not there.
type NotInstalledError struct{ Language Language }

func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("sdk: the stock %s SDK is not installed: run make sdks", e.Language)
}

// ErrorCode is sdk_not_installed.
func (e *NotInstalledError) ErrorCode() string { return "sdk_not_installed" }

// Retryable is false.
func (e *NotInstalledError) Retryable() bool { return false }

// Installed is the folder of an SDK that is there, else a NotInstalledError.
func (l Language) Installed() (string, error) {
	dir, err := l.Folder()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, Done)); errors.Is(err, fs.ErrNotExist) {
		return "", &NotInstalledError{l}
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// Command is the command line that runs a script of this package. The script
// lies in dir, which is the caller's and empty, where it finds the SDK.
func (l Language) Command(dir, script string) ([]string, error) {
	home, err := l.Installed()
	if err != nil {
		return nil, err
	}
	text, err := Files.ReadFile(string(l) + "/" + script)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, script)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	if l == Python {
		return []string{filepath.Join(home, "bin", "python"), file}, nil
	}
	// Node looks for modules from the file that imports them.
	if err := os.Symlink(filepath.Join(home, "node_modules"), filepath.Join(dir, "node_modules")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return []string{"node", file}, nil
}
