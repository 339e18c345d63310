package server

// LoseMonitor cuts the connection over which the server tells of others.
func (s *Server) LoseMonitor() error { return s.monitor.ForceReconnect() }
