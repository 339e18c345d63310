// Package assistant is the example of the reasoning kernel: "Summarise my latest mail and send it to me", on real mail,
// with a planted instruction, a Reader that obeys it, a loop with links that nobody reads, and a planner that is compromised.
//
// The folder mesh is for `bcpmesh up`, with programs in its seats. `bcpmesh demo --kernel` tells of it.
package assistant

import (
	"embed"
	"io/fs"
)

//go:embed all:mesh
var mesh embed.FS

// Folder returns the example's folder: definitions, the plans of its planner, and its office.
func Folder() fs.FS {
	folder, err := fs.Sub(mesh, "mesh")
	if err != nil {
		panic("assistant: the example is not embedded: " + err.Error())
	}
	return folder
}
