// Package cluster connects a gateway to an ordinary NATS cluster in operator
// mode, in place of the embedded server of package server:
//
//	c, err := cluster.Connect(ctx, config)   // with two creds files, and no key
//	err = c.Check(ctx, scopes)               // it enforces what the definitions say
//	conn, err := c.Gateway()                 // to the gateway's account
//	stop, err := c.Watch(handle)             // who connects to any of its servers
//
// The operator controls what the cluster enforces: a gateway has no key that
// could change it.
package cluster
