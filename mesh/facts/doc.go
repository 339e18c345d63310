// Package facts gathers what shows that the roles of a mesh keep their contracts, for
// [contract.Verify]: the claims of the permission proof, the closed types of messages,
// the strict decoders tried on embedded vectors, what the rules read, the build, and what
// the records of runs say.
//
// It changes nothing, and judges nothing: that a contract is kept is decided in package
// contract. What could not be found out is missing from the facts, and shows nothing.
package facts
