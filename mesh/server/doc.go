// Package server runs the NATS server of a mesh inside this process, and is
// the only package that knows that server.
//
// The shortest correct use:
//
//	s, err := server.Start(ctx, server.Config{StateDir: state, Bundle: bundle})
//	gateway, err := s.Gateway()        // the gateway's own connection
//	stop, err := s.Watch(handle)       // who connects and who leaves
//	err = s.UpdateAccounts(ctx, next)  // after an edit of the definitions
//	err = s.Stop(ctx)
//
// The server lets in users of the bundle's accounts and nobody else, enforces
// their permissions, and keeps the streams of the gateway's account under
// StateDir. It listens on the loopback interface unless it has TLS. There is no
// monitoring port: it would need no credentials.
//
// Clients come in through an entrance of this package's, over TCP or WebSocket,
// where TLS ends. It reads each agent no faster than its pace, and bounds who may
// connect: what floods waits in its own socket. Docs/limits.md has the limits.
//
// NATS tells nobody about refusals but the client and its own log. This
// package reads them there and hands them out as [Denial] values, bounded in
// rate, so that they can be audited. What clients chose themselves (names,
// subjects, protocol text) is never logged.
//
// For one server in one process; a cluster of servers is run outside, with the
// claims of package accounts.
package server
