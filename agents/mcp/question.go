package mcp

import (
	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Instruction tells a foreign agent about the JSON of [QueryJSON]. The spec's own words
// are in that JSON.
const Instruction = "Answer the questions of the query, from what you can read. " +
	"Return one JSON object in the shape of response_schema. " +
	`If you cannot tell, return {"not_enough_information": true} alone. Ask nothing back.`

// QueryJSON encodes a query for an agent with another protocol: the spec, the JSON
// Schema of its answers, and why the previous answer was refused.
func QueryJSON(q agents.Query) ([]byte, error) {
	return json.Marshal(struct {
		Query          bcp.Spec `json:"query"`
		ResponseSchema *Schema  `json:"response_schema"`
		LastDetail     string   `json:"last_detail,omitempty"`
	}{q.Spec, SpecSchema(q.Spec), q.LastDetail})
}
