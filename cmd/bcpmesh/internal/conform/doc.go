// Package conform has the command conformance, which tests one program alone
// or an agent in its own mesh.
package conform
