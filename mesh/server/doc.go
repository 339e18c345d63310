// Package server is a gateway's way to NATS: a server inside this process, which
// [Start] runs, or an ordinary cluster in operator mode, to which [ConnectCluster]
// connects. Both give the gateway its connections, and say who connects and who
// leaves. Only this package uses the server as a library.
//
// # A server in this process
//
//	s, err := server.Start(ctx, server.Config{StateDir: state, Bundle: bundle})
//	gateway, err := s.Gateway()        // the gateway's own connection
//	stop, err := s.Watch(handle)       // who connects and who leaves
//	err = s.UpdateAccounts(ctx, next)  // after an edit of the definitions
//	err = s.Stop(ctx)
//
// The server admits only users of the bundle's accounts, enforces their
// permissions, and keeps the streams of the gateway's account under StateDir.
// It has no port, neither for clients nor for monitoring: whoever shares the machine
// could use it.
//
// Clients connect through this package's proxy, which terminates TLS. It listens on the loopback interface unless it has TLS. It
// limits the read rate of each agent and the number of connections, so a flood waits in
// its sender's socket. docs/limits.md has the limits.
//
// NATS reports refusals only to the client and in its own log. This package
// reads that log and reports them as [Denial] values, bounded in rate, for the
// audit. Texts that clients choose (names, subjects, protocol text) are never
// logged.
//
// What one version of nats-server has on the disk and says in its log is known in blocks.go,
// keeper.go, sync.go and sentences.go alone: a new version fails TestVersion, which says
// what to compare before NATSVersion is changed.
//
// # A cluster
//
//	c, err := server.ConnectCluster(ctx, config) // with two creds files, and no key
//	err = c.Check(ctx, scopes)                   // it enforces what the definitions say
//	conn, err := c.Gateway()                     // to the gateway's account
//	stop, err := c.Watch(handle)                 // who connects to any of its servers
//
// The operator controls what a cluster enforces, with a [Pusher]: a gateway has no key
// that could change it.
package server

// NATSVersion is the version of nats-server whose files and sentences are known.
const NATSVersion = "2.15.2"
