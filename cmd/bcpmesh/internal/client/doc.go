// Package client connects a command to a mesh that runs: as an agent, an
// operator, an auditor or an approver, with the credentials that the flags name or
// that the state folder allows. On a cluster it asks each shard and merges what
// they say. It shows results of shards and decides nothing.
package client
