// Package conform has the command that tests agents for conformance, a candidate
// program alone or an agent that is connected to its mesh.
package conform
