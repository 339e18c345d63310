package define

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// parseSettings reads the settings of a case: keys of a Controller's channel
// entry, and the vocabularies of a mesh. There is one schema of them, that of
// definitions, so the settings are put into a mesh of two agents and loaded.
// It also returns the number of subscriptions.
func parseSettings(raw jsontext.Value) (bcp.Settings, int, error) {
	if raw == nil || raw.Kind() == 'n' {
		return bcp.Settings{}, 0, nil
	}
	members, err := splitMembers(raw)
	if err != nil {
		return bcp.Settings{}, 0, fmt.Errorf("settings: %w", err)
	}
	entry := map[string]jsontext.Value{"max_category": jsontext.Value("3"), "budget_bits": jsontext.Value("1000000000")}
	mesh := map[string]jsontext.Value{}
	for _, m := range members {
		switch m.name {
		case "vocabularies":
			mesh[m.name] = m.value
		case "approvers":
			mesh[m.name], entry[m.name] = m.value, m.value
		default:
			entry[m.name] = m.value
		}
	}
	entry["peer"], entry["role"] = jsontext.Value(`"reader"`), jsontext.Value(`"controller"`) // which channel it is makes no difference
	entryYAML, err := flowYAML(entry)
	if err != nil {
		return bcp.Settings{}, 0, err
	}
	meshYAML, err := flowYAML(mesh)
	if err != nil {
		return bcp.Settings{}, 0, err
	}
	loaded, report := definition.Parse(map[string][]byte{
		"mesh.yaml":            meshYAML,
		"agents/controller.md": fmt.Appendf(nil, "---\nname: controller\nbcp_channels:\n  - %s\n---\n", entryYAML),
		"agents/reader.md":     []byte("---\nname: reader\nbcp_channels:\n  - {peer: controller, role: reader}\n---\n"),
	})
	if !report.OK() {
		problem := report.Errors[0]
		key := strings.TrimPrefix(strings.TrimPrefix(problem.Key, "bcp_channels[0]"), ".")
		if key != "" {
			key = "." + key
		}
		return bcp.Settings{}, 0, fmt.Errorf("settings%s: %s", key, problem.Message)
	}
	if loaded == nil || len(loaded.Channels) != 1 {
		return bcp.Settings{}, 0, fmt.Errorf("settings: expected the keys of a channel entry")
	}
	channel := loaded.Channels[0]
	return channel.Settings(loaded, constraint.Compile), len(channel.Subscriptions), nil
}

// flowYAML writes a JSON object in one line that every YAML parser takes.
func flowYAML(members map[string]jsontext.Value) ([]byte, error) {
	text, err := json.Marshal(members, json.Deterministic(true), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true), jsontext.EscapeForJS(true))
	if err != nil {
		return nil, fmt.Errorf("settings: a key is there twice, or a text is not valid Unicode")
	}
	return text, nil
}
