package server

import "github.com/hashicorp/go-hclog"

const (
	// connectionFiles are the file descriptors of a client: its own, and both
	// ends of the leg behind the entrance.
	connectionFiles = 3
	// reservedFiles are left for the streams and the rest of the process: a
	// journal that cannot open its file would stop the mesh.
	reservedFiles = 1024
	// leastConnections come in however few files may be open.
	leastConnections = 64
	// fewConnections are worth a warning: some systems allow little more.
	fewConnections = 1024
)

// connectionsFor is how many clients may come in where the process may have so
// many files open.
func connectionsFor(files uint64) int {
	if files >= reservedFiles+connectionFiles*maxConnections {
		return maxConnections
	}
	return max(leastConnections, (int(files)-reservedFiles)/connectionFiles)
}

// MaxConnections is how many connections of agents and people come into a server of
// this process: as many as the files that it may have open allow.
func MaxConnections() int { return connectionsFor(openFiles()) }

// FilesFor is how many files a process may need to have open for so many
// connections.
func FilesFor(connections int) int { return reservedFiles + connectionFiles*connections }

// connectionsHere is connectionsFor of this process, and says where that is less
// than it could be. The runtime has raised the soft limit to the hard one already.
func connectionsHere(log hclog.Logger) int {
	files := openFiles()
	most := connectionsFor(files)
	level := hclog.Info
	if most < fewConnections {
		level = hclog.Warn
	}
	if most < maxConnections {
		log.Log(level, "few files may be open, so fewer agents can be connected; raise the hard limit of open files (ulimit -Hn, LimitNOFILE=)",
			"files", files, "connections", most, "wanted", reservedFiles+connectionFiles*maxConnections)
	}
	return most
}
