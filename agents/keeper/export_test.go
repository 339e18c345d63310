package keeper

// SetAside has the cell not read these inputs, which ended cells before it.
func (s *Services) SetAside(inputs []string) { s.aside = inputs }
