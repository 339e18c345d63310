package bench

import (
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	subscription bcp.SubscriptionID = "alerts"
	// question is what every flow asks.
	question = `{"type":"bcp_query_request","category":1,"fields":[{"name":"urgent","type":"boolean"},{"name":"kind","type":"enum","values":["mail","chat","call"]}]}`
	// answer is what every push and every answer says.
	answer = `"response":{"urgent":true,"kind":"mail"}`
)

// shape is the size of a mesh: so many Readers and Controllers, and a channel
// between those of one number, or where it is crossed between all.
type shape struct {
	Readers     int  `json:"readers"`
	Controllers int  `json:"controllers"`
	Crossed     bool `json:"crossed"`
}

func (s shape) channels() int {
	if s.Crossed {
		return s.Readers * s.Controllers
	}
	return min(s.Readers, s.Controllers)
}

func readerName(i int) bcp.AgentName     { return bcp.AgentName(fmt.Sprintf("reader-%d", i)) }
func controllerName(i int) bcp.AgentName { return bcp.AgentName(fmt.Sprintf("main-%d", i)) }

// definition writes the mesh down as an operator would and loads it. Its budget
// is the largest there is.
func (s shape) definition(interval bool) (*bcp.Mesh, error) {
	sync := "always"
	if interval {
		sync = "1h"
	}
	files := map[string][]byte{"mesh.yaml": []byte("name: bench\nsync: " + sync + "\n")}
	agent := func(name bcp.AgentName, peers int, channel func(peer int) string) {
		var b strings.Builder
		fmt.Fprintf(&b, "---\nname: %s\nbcp_channels:\n", name)
		for peer := range peers {
			b.WriteString(channel(peer))
		}
		files[string(name)+".md"] = []byte(b.String() + "---\n")
	}
	for c := range s.Controllers {
		agent(controllerName(c), s.Readers, func(r int) string {
			if !s.Crossed && r != c {
				return ""
			}
			return fmt.Sprintf("  - {peer: %s, role: controller, max_category: 1, budget_bits: 1000000000,\n     subscriptions: [{id: %s, category: 1, "+
				"fields: [{name: urgent, type: boolean}, {name: kind, type: enum, values: [mail, chat, call]}]}]}\n", readerName(r), subscription)
		})
	}
	for r := range s.Readers {
		agent(readerName(r), s.Controllers, func(c int) string {
			if !s.Crossed && r != c {
				return ""
			}
			return fmt.Sprintf("  - {peer: %s, role: reader}\n", controllerName(c))
		})
	}
	mesh, report := definition.Parse(files)
	if mesh == nil {
		return nil, fmt.Errorf("the definitions of a measurement are wrong: %v", report.Errors)
	}
	return mesh, nil
}

// pushBody is what a Reader pushes, with an id as the SDK makes one.
func pushBody(controller bcp.AgentName, id string) []byte {
	return []byte(`{"type":"bcp_response","subscription_id":"` + string(subscription) + `","controller":"` + string(controller) +
		`","push_id":"` + id + `",` + answer + `}`)
}

func answerBody(query string) []byte {
	return []byte(`{"type":"bcp_response","query_id":"` + query + `",` + answer + `}`)
}

func pushSubject(reader, controller int) string {
	return subjects.Push(readerName(reader), controllerName(controller), subscription)
}
