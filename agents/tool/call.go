package tool

import "github.com/go-json-experiment/json/jsontext"

// Call is a call of a tool outside the cell: of an MCP server.
type Call struct {
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
}

// Result is the result of a [Call]: a text of a server, which is untrusted, or a
// failure without one.
type Result struct {
	Text string `json:"text,omitzero"`
	// Failed says that the server calls its text an error.
	Failed  bool    `json:"failed,omitzero"`
	Failure Failure `json:"failure,omitzero"`
}
