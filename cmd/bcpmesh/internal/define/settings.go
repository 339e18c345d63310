package define

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

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
	entry := []member{
		{"peer", jsontext.Value(`"reader"`)},
		{"role", jsontext.Value(`"controller"`)},
		{"max_category", jsontext.Value(`3`)},
		{"budget_bits", jsontext.Value(`1000000000`)},
	}
	var mesh []member
	for _, m := range members {
		switch m.name {
		case "peer", "role":
			continue // which channel it is makes no difference
		case "vocabularies":
			mesh = append(mesh, m)
			continue
		case "approvers":
			mesh = append(mesh, m)
		}
		if i := slices.IndexFunc(entry, func(e member) bool { return e.name == m.name }); i >= 0 {
			entry[i] = m
		} else {
			entry = append(entry, m)
		}
	}
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
	return channel.Settings(loaded, nil, constraint.Compile), len(channel.Subscriptions), nil
}

// flowYAML writes a JSON object in one line that every YAML parser takes.
func flowYAML(members []member) ([]byte, error) {
	var b bytes.Buffer
	enc := jsontext.NewEncoder(&b, jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true), jsontext.EscapeForJS(true))
	err := enc.WriteToken(jsontext.BeginObject)
	for _, m := range members {
		if err == nil {
			err = enc.WriteToken(jsontext.String(m.name))
		}
		if err == nil {
			err = enc.WriteValue(m.value)
		}
		if err != nil {
			return nil, fmt.Errorf("settings: a key is there twice, or a text is not valid Unicode")
		}
	}
	if err := enc.WriteToken(jsontext.EndObject); err != nil {
		return nil, fmt.Errorf("settings: not JSON")
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
