package server

import "path/filepath"

// The names of what is in a mesh's state folder and several packages use. A package names the files that only it uses
// itself.
const (
	// StateFolder is the name of the state folder, next to the definitions of a mesh.
	StateFolder = ".bcpmesh"
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

// StateOf returns the state folder of the mesh whose definitions are in dir.
func StateOf(dir string) string { return filepath.Join(dir, StateFolder) }

// ReadyOf is the ready file of a state folder.
func ReadyOf(state string) string { return filepath.Join(state, ReadyFile) }

// StreamsOf returns the NATS server's store. It exists once a mesh has run.
func StreamsOf(state string) string { return filepath.Join(state, StreamFolder) }

// StreamPattern matches, for [filepath.Glob], the folder of a stream in the
// store, of whichever account.
func StreamPattern(state, stream string) string {
	// The server makes a folder of this name in its store, too.
	return filepath.Join(StreamsOf(state), "jetstream", "*", "streams", stream)
}

// AttestOf returns the folder with what an organisation has signed about its agents.
func AttestOf(state string) string { return filepath.Join(state, AttestFolder) }

// GatewayOf returns the state folder of the gateway of that name.
func GatewayOf(state, name string) string { return filepath.Join(state, GatewaysFolder, name) }
