// Package home has the paths of files in a mesh's state folder that several
// packages use. It neither reads nor writes; accounts/durable writes files. A
// package names the files that only it uses itself.
package home

import "path/filepath"

const (
	// Folder is the name of the state folder, next to the definitions of a mesh.
	Folder = ".bcpmesh"
	// ReadyFile tells commands the address of the running mesh. It is in the
	// state folder.
	ReadyFile = "mesh.json"
	// StreamFolder is the NATS server's store, with the journal.
	StreamFolder = "jetstream"
	// GatewaysFolder contains a state folder for each gateway of a cluster that
	// runs here.
	GatewaysFolder = "gateways"
	// AttestFolder contains what an organisation has signed about its agents.
	AttestFolder = "attest"
	// ServerLock is held by the one server of a state folder, GatewayLock by the
	// one gateway.
	ServerLock  = "server.lock"
	GatewayLock = "gateway.lock"
)

// State returns the state folder of the mesh whose definitions are in dir.
func State(dir string) string { return filepath.Join(dir, Folder) }

// Ready is the ready file of a state folder.
func Ready(state string) string { return filepath.Join(state, ReadyFile) }

// Streams returns the NATS server's store. It exists once a mesh has run.
func Streams(state string) string { return filepath.Join(state, StreamFolder) }

// StreamPattern matches, for [filepath.Glob], the folder of a stream in the
// store, of whichever account.
func StreamPattern(state, stream string) string {
	// The server makes a folder of this name in its store, too.
	return filepath.Join(Streams(state), "jetstream", "*", "streams", stream)
}

// Attest returns the folder with what an organisation has signed about its agents.
func Attest(state string) string { return filepath.Join(state, AttestFolder) }

// Gateway returns the state folder of the gateway of that name.
func Gateway(state, name string) string { return filepath.Join(state, GatewaysFolder, name) }
