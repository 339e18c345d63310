// Package proof proves, only from the JWTs of a NATS server, that no message of
// an agent bypasses the gateway: it builds a graph of accounts, imports,
// exports, mappings and permissions, and searches it for a path.
//
//	var claims proof.Claims
//	err := claims.Add(text) // JWTs, creds files, a resolver's folder
//	report, err := proof.Prove(claims, proof.Policy{})
//	// report.Holes are the forbidden paths
//
// It does not read definitions: its result is about the JWTs that were issued.
// Sets of subject patterns are followed exactly or overestimated, never
// underestimated.
//
// # What it assumes
//
// The server does what its documentation says, in the version that the tests of
// this package compare it with. The set of JWTs is complete: an account outside
// it may import whatever is exported to all. Trusted parties answer with
// content of their own, and use only the mesh's reply subjects; note that a
// sender chooses where in its own account the answer to a request goes. Only
// owners have their private keys.
//
// # What it does not show
//
// The amount and timing of messages on the permitted paths; what streams store
// without being named in a JWT; leaf nodes, clusters and MQTT, which add
// subjects of their own; that reply subjects of requests cannot be guessed.
package proof
