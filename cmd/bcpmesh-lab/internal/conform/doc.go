// Package conform has the command conformance, which tests one program.
package conform
