package pattern

// Set is a list of patterns, asked as one. The zero Set matches nothing.
type Set struct {
	patterns []Pattern
	// exact is the index of each pattern without a star, globs the indexes of
	// the others; both in the order of the list.
	exact map[string]int
	globs []int
}

// CompileSet compiles a list. The error is the *Error of the first bad one.
// Repeated patterns count once, at their first place.
func CompileSet(texts ...string) (Set, error) {
	s := Set{exact: make(map[string]int, len(texts))}
	for _, text := range texts {
		p, err := Compile(text)
		if err != nil {
			return Set{}, err
		}
		i := len(s.patterns)
		s.patterns = append(s.patterns, p)
		if !p.Exact() {
			s.globs = append(s.globs, i)
		} else if _, seen := s.exact[text]; !seen {
			s.exact[text] = i
		}
	}
	return s, nil
}

// MustCompileSet is CompileSet for constants of the program. It panics on a
// bad pattern.
func MustCompileSet(texts ...string) Set {
	s, err := CompileSet(texts...)
	if err != nil {
		panic(err)
	}
	return s
}

// Match is the first pattern of the list that matches.
func (s Set) Match(id string) (pattern string, ok bool) {
	best, ok := s.exact[id]
	for _, i := range s.globs {
		if ok && i > best {
			break
		}
		if s.patterns[i].Match(id) {
			best, ok = i, true
			break
		}
	}
	if !ok {
		return "", false
	}
	return s.patterns[best].text, true
}

// Patterns is the list as it was written.
func (s Set) Patterns() []string {
	texts := make([]string, len(s.patterns))
	for i, p := range s.patterns {
		texts[i] = p.text
	}
	return texts
}

// Len is the number of patterns in the list.
func (s Set) Len() int { return len(s.patterns) }
