// Package proof shows, from the JWTs of a NATS server alone, that no message of
// an agent gets past the gateway: it makes a graph of accounts, imports, exports,
// mappings and permissions, and looks for a way.
//
//	var claims proof.Claims
//	err := claims.Add(text) // JWTs, creds files, a resolver's folder
//	report, err := proof.Prove(claims, proof.Policy{})
//	// report.Holes are the ways that should not be
//
// It knows nothing of definitions: what it shows of a mesh, it shows of what was
// issued. A set of patterns is followed exactly, or is taken for more than it
// is; it is never taken for less.
//
// # What it assumes
//
// The server does what its documentation says, in the version that the tests of
// this package compare it with. The set is whole: an account that is not in it
// may import what is exported to all. Whoever is trusted answers with what it
// made itself, and names no reply subjects but those of the mesh: a sender
// chooses where in its own account the answer to a request goes. Private keys
// are with those whom they belong to.
//
// # What it does not show
//
// How much is said on the ways that are left, and when. What streams store that
// the JWTs do not name. Leaf nodes, clusters and MQTT, which add subjects of
// their own; that answers to requests are told apart by numbers that nobody
// guesses.
package proof
