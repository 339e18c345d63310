package keeper

import "net/http"

// Handler is what [Services.Serve] serves.
func (s *Services) Handler() http.Handler { return s.handler() }

// SetAside has the cell not read these inputs, which ended cells before it.
func (s *Services) SetAside(inputs []string) { s.aside = inputs }
