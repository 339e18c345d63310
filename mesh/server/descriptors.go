package server

import "github.com/hashicorp/go-hclog"

const (
	// reservedFiles are for the streams and the rest of the process: a journal
	// that cannot open its file would stop the mesh.
	reservedFiles = 1024
	// leastConnections is the connection limit, however few files may be open.
	leastConnections = 64
	// fewConnections are worth a warning: some systems allow little more.
	fewConnections = 1024
)

// connectionsFor returns the connection limit for a limit of open files.
func connectionsFor(files uint64) int {
	if files >= reservedFiles+maxConnections {
		return maxConnections
	}
	return max(leastConnections, int(files)-reservedFiles)
}

// MaxConnections returns the limit of connections of agents and people to a server
// in this process, from its limit of open files.
func MaxConnections() int { return connectionsFor(openFiles()) }

// FilesFor is how many files a process may need to have open for so many
// connections.
func FilesFor(connections int) int { return reservedFiles + connections }

// connectionsHere is connectionsFor for this process, and logs if that is less
// than it could be. The runtime has already raised the soft limit to the hard one.
func connectionsHere(log hclog.Logger) int {
	files := openFiles()
	most := connectionsFor(files)
	level := hclog.Info
	if most < fewConnections {
		level = hclog.Warn
	}
	if most < maxConnections {
		log.Log(level, "few files may be open, so fewer agents can be connected; raise the hard limit of open files (ulimit -Hn, LimitNOFILE=)",
			"files", files, "connections", most, "wanted", reservedFiles+maxConnections)
	}
	return most
}
