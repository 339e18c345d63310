package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// mcpFiles runs the mesh of the example and writes the creds of its agents.
func mcpFiles(t *testing.T) (m *meshtest.Mesh, creds func(bcp.AgentName) string) {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"mesh.yaml", "agents/main.md", "agents/researcher.md"} {
		content := readFile(t, filepath.Join("../../examples/mcp/mesh", name))
		files[name] = string(content)
	}
	m = meshtest.Start(t, files)
	dir := t.TempDir()
	return m, func(name bcp.AgentName) string {
		file := filepath.Join(dir, string(name)+".creds")
		noError(t, os.WriteFile(file, m.Creds(t, name, 0), 0o600))
		return file
	}
}

func toolsOf(t *testing.T, session *sdk.ClientSession) string {
	t.Helper()
	list := must(session.ListTools(t.Context(), nil))(t)
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// withToken sends it with every request.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// Over HTTP the program tells where it serves, and the token that it made; it
// serves who has it, and ends when it is told to.
//
// covers BCP-121
func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	m, creds := mcpFiles(t)
	own := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(own, []byte("a-token-of-my-own\n"), 0o600))
	for _, more := range [][]string{nil, {"--token-file", own}} {
		program := exec.Command("bcpmesh", append([]string{"mcp", "--json", "--creds", creds("main"), "--url", m.URL(), "--http", "127.0.0.1:0"}, more...)...)
		out := must(program.StdoutPipe())(t)
		noError(t, program.Start())
		line := must(bufio.NewReader(out).ReadBytes('\n'))(t)
		var about client.HTTPAddress
		noError(t, json.Unmarshal(line, &about))
		token := about.Token
		if more != nil {
			token = "a-token-of-my-own"
			expect(t, about.Token, "", "it shows the token of the file")
		}
		failIf(t, about.PID != program.Process.Pid || len(token) < client.LeastToken, "it tells %+v", about)
		for _, given := range []string{token, token + "x"} {
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: about.URL, HTTPClient: &http.Client{Transport: withToken(given)}}, nil)
			stopIf(t, (err == nil) != (given == token), "with the token %t: %v", given == token, err)
			if err == nil {
				expect(t, toolsOf(t, session), "BCPBudget BCPInbox BCPQuery BCPSubscribe", "it")
				// The session is left open: the program ends all the same.
			}
		}
		noError(t, program.Process.Signal(syscall.SIGTERM))
		expect(t, program.Wait(), nil, "it ended with")
	}
}
