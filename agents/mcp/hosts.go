package mcp

import (
	"errors"
	"path/filepath"
	"slices"
)

// Host is a program that starts the MCP servers in its configuration file. [Host.Add] and [Host.Remove] take the file's
// content and return the new one, in which the rest is as it was, byte for byte. Neither reads or writes files.
type Host struct {
	Name  string // as people type it
	Title string
	file  func(HostPlace) string
	key   string // of the object of the servers by name
	typed bool   // an entry says "type": "stdio"
}

// HostPlace determines the path of a host's file.
type HostPlace struct {
	OS      string // as in GOOS
	Home    string
	Config  string // of programs: %APPDATA%, $XDG_CONFIG_HOME or ~/.config
	Project string // the folder of a project
}

// HostEntry is how a host starts a server, as it stands in the host's file.
type HostEntry struct {
	Name    string   `json:"-"`              // of the entry
	Type    string   `json:"type,omitempty"` // Add says it where a host asks for it
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

var (
	// ErrHostSyntax says that the host could not read the file, so nothing can be added.
	ErrHostSyntax = errors.New("mcp: the file cannot be read as its host's configuration")
	// ErrHostSize says that a file is larger than [MaxHostFile].
	ErrHostSize = errors.New("mcp: the file is too large")
)

// MaxHostFile bounds a configuration file, in bytes: some hosts keep more in it than servers.
const MaxHostFile = 16 << 20

// allHosts are the hosts, with their vendors' pages about the files.
var allHosts = []Host{
	{Name: "claude-code", Title: "Claude Code, in this project", key: "mcpServers", // https://code.claude.com/docs/en/mcp
		file: func(p HostPlace) string { return filepath.Join(p.Project, ".mcp.json") }},
	{Name: "claude-desktop", Title: "Claude Desktop", key: "mcpServers", // https://modelcontextprotocol.io/docs/develop/connect-local-servers
		file: func(p HostPlace) string {
			if p.OS == "darwin" {
				return filepath.Join(p.Home, "Library", "Application Support", "Claude", "claude_desktop_config.json")
			}
			return filepath.Join(p.Config, "Claude", "claude_desktop_config.json")
		}},
	{Name: "cursor", Title: "Cursor", key: "mcpServers", // https://cursor.com/docs/mcp
		file: func(p HostPlace) string { return filepath.Join(p.Home, ".cursor", "mcp.json") }},
	{Name: "cursor-project", Title: "Cursor, in this project", key: "mcpServers", // https://cursor.com/docs/mcp
		file: func(p HostPlace) string { return filepath.Join(p.Project, ".cursor", "mcp.json") }},
	{Name: "gemini", Title: "Gemini CLI", key: "mcpServers", // https://geminicli.com/docs/tools/mcp-server/
		file: func(p HostPlace) string { return filepath.Join(p.Home, ".gemini", "settings.json") }},
	{Name: "vscode", Title: "VS Code, in this project", key: "servers", typed: true, // https://code.visualstudio.com/docs/copilot/customization/mcp-servers
		file: func(p HostPlace) string { return filepath.Join(p.Project, ".vscode", "mcp.json") }},
}

// Hosts returns them, sorted by name.
func Hosts() []Host { return slices.Clone(allHosts) }

// FindHost returns the host of a name.
func FindHost(name string) (Host, bool) {
	i := slices.IndexFunc(allHosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, false
	}
	return allHosts[i], true
}

// File returns the path of the host's file.
func (h Host) File(p HostPlace) string { return h.file(p) }

// Add returns the content of a host's file with a server added. Nil content stands for
// a missing file. Existing content is unchanged; an entry of the same name is replaced.
// Errors are [ErrHostSyntax] and [ErrHostSize].
func (h Host) Add(content []byte, s HostEntry) ([]byte, error) {
	e, err := h.find(content, s.Name)
	if err != nil {
		return nil, err
	}
	return e.put(s), nil
}

// Remove returns the content of a host's file without the server of a name, and whether
// it was there. Errors are those of [Host.Add].
func (h Host) Remove(content []byte, name string) (rest []byte, found bool, err error) {
	e, err := h.find(content, name)
	if err != nil || e.at < 0 {
		return content, false, err
	}
	e.servers.remove(e.at)
	return e.file.Pack(), true, nil
}
