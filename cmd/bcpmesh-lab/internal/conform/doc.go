// Package conform has the commands, which attack meshes, measure them, and test agents.
package conform
