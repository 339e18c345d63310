// Package facts collects evidence that the roles of a mesh keep their
// contracts, for [contract.Verify]: the claims of the permission proof, the
// closed message types, the strict decoders tried on embedded vectors, the
// inputs of the rules, the build, and the records of runs.
//
// It changes and judges nothing: package contract decides whether a contract is
// kept. Missing evidence proves nothing.
package facts
