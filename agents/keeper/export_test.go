package keeper

import "net/http"

// Handler is what [Services.Serve] serves.
func (s *Services) Handler() http.Handler { return s.handler() }
