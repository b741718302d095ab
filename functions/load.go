package functions

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/iii-aws/harness/internal/strict"
)

//go:embed */iii.worker.yaml
var files embed.FS

// Manifests is every built-in worker, sorted by name.
var Manifests = sync.OnceValues(func() ([]Manifest, error) { return load(files) })

// load reads the manifests of a folder: one folder for each worker, of its
// name.
func load(folder fs.FS) ([]Manifest, error) {
	dirs, err := fs.ReadDir(folder, ".") // sorted by name
	if err != nil {
		return nil, err
	}
	var out []Manifest
	owner := map[string]string{}
	for _, dir := range dirs {
		name := path.Join(dir.Name(), "iii.worker.yaml")
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		file := "functions/" + name
		m, err := Parse(file, data)
		if err != nil {
			return nil, err
		}
		if m.Name != dir.Name() {
			return nil, &strict.Error{File: file, Field: "name", Problem: fmt.Sprintf("is %q", m.Name), Allowed: fmt.Sprintf("%q, the name of its folder", dir.Name())}
		}
		for i, f := range m.Functions {
			if other, taken := owner[f.ID]; taken {
				return nil, &strict.Error{File: file, Field: fmt.Sprintf("functions[%d].id", i), Problem: fmt.Sprintf("is %q, which worker %s has", f.ID, other), Allowed: "an id that no other worker has"}
			}
			owner[f.ID] = m.Name
		}
		out = append(out, m)
	}
	return out, nil
}
