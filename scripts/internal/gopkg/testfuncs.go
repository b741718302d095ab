package gopkg

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is a kind of test function.
type Kind struct {
	prefix string // how its name starts
	param  string // the type in package testing that it takes a pointer to
}

// The kinds of test function that the scripts run one by one or alone.
var (
	Fuzz      = Kind{prefix: "Fuzz", param: "F"}
	Benchmark = Kind{prefix: "Benchmark", param: "B"}
)

// TestFuncs returns the names of the package's functions of that kind, in the order of the files and
// of the functions in them. A file that cannot be parsed is an error that names the place.
func (p Package) TestFuncs(kind Kind) ([]string, error) {
	var names []string
	for _, files := range [][]string{p.TestGoFiles, p.XTestGoFiles} {
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("find the %s functions of %s: %w", kind.prefix, p.Rel(), err)
			}
			for _, decl := range file.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && kind.matches(fn) {
					names = append(names, fn.Name.Name)
				}
			}
		}
	}
	return names, nil
}

// matches applies the go command's own rule: the prefix, then no lower-case letter, and one parameter
// of type *testing.X, whatever name the file imports package testing under.
func (k Kind) matches(fn *ast.FuncDecl) bool {
	rest, ok := strings.CutPrefix(fn.Name.Name, k.prefix)
	if first, _ := utf8.DecodeRuneInString(rest); !ok || rest != "" && unicode.IsLower(first) {
		return false
	}
	if fn.Recv != nil || fn.Type.Results != nil || fn.Type.TypeParams != nil {
		return false
	}
	params := fn.Type.Params.List
	if len(params) != 1 || len(params[0].Names) > 1 {
		return false
	}
	ptr, ok := params[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	switch x := ptr.X.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name == k.param
	case *ast.Ident:
		return x.Name == k.param
	}
	return false
}
