// Package home has the paths of files in a mesh's state folder that several
// packages use. It neither reads nor writes; accounts/durable writes files. A
// package names the files that only it uses itself.
package home

import "path/filepath"

const (
	// Folder is the state folder, beside the definitions of a mesh.
	Folder = ".bcpmesh"
	// ReadyFile tells commands where the mesh that runs is. It is in the state
	// folder.
	ReadyFile = "mesh.json"
	// StreamFolder is the NATS server's store, with the journal.
	StreamFolder = "jetstream"
	// GatewaysFolder holds a state folder for each gateway of a cluster that
	// runs here.
	GatewaysFolder = "gateways"
	// AttestFolder has what an organisation has signed about its agents.
	AttestFolder = "attest"
	// ServerLock is held by the one server of a state folder, GatewayLock by the
	// one gateway.
	ServerLock  = "server.lock"
	GatewayLock = "gateway.lock"
)

// State is the state folder of the mesh whose definitions are in dir.
func State(dir string) string { return filepath.Join(dir, Folder) }

// Ready is the ready file of a state folder.
func Ready(state string) string { return filepath.Join(state, ReadyFile) }

// Streams is the NATS server's store. It is there once a mesh ran.
func Streams(state string) string { return filepath.Join(state, StreamFolder) }

// StreamPattern matches, for [filepath.Glob], the folder of a stream in the
// store, of whichever account.
func StreamPattern(state, stream string) string {
	// The server makes a folder of this name in its store, too.
	return filepath.Join(Streams(state), "jetstream", "*", "streams", stream)
}

// Attest is the folder with what an organisation has signed about its agents.
func Attest(state string) string { return filepath.Join(state, AttestFolder) }

// Gateway is the state folder of the gateway of that name.
func Gateway(state, name string) string { return filepath.Join(state, GatewaysFolder, name) }
