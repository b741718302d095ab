package web

// Find is the parameters of the route that a request leads to.
func (s *Server) Find(method, path string) (map[string]string, bool) {
	found, params, _ := s.routes.find(method, path)
	return params, found != nil
}

// Limit sets the limits of bodies.
func (s *Server) Limit(json, body int64) { s.maxJSON, s.maxBody = json, body }
