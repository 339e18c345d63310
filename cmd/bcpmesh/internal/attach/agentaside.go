package attach

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// asideFolder has, in the state folder, a file for each agent one of whose cells ended while it read something: the digests of
// what it read, one a line. Deleting the file has it read again.
const asideFolder = "aside"

func readAside(state string, agent bcp.AgentName) []string {
	content, err := cli.ReadSmall(filepath.Join(state, asideFolder, string(agent)))
	if err != nil {
		return nil // there is none, or it is to be written anew
	}
	return strings.Fields(string(content))
}

func writeAside(state string, agent bcp.AgentName, inputs []string) error {
	if len(inputs) == 0 {
		return nil
	}
	folder := filepath.Join(state, asideFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return durable.Replace(filepath.Join(folder, string(agent)), []byte(strings.Join(inputs, "\n")+"\n"), 0o600)
}
