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
	// question is the question of every flow.
	question = `{"type":"bcp_query_request","category":1,"fields":[{"name":"urgent","type":"boolean"},{"name":"kind","type":"enum","values":["mail","chat","call"]}]}`
	// answer is the response in every push and answer.
	answer = `"response":{"urgent":true,"kind":"mail"}`
)

// shape is the size of a mesh: the numbers of Readers and Controllers. A Reader
// and a Controller with the same number have a channel; if it is crossed, all
// pairs do, or, with groups of a given size, all pairs in a group.
type shape struct {
	Readers     int  `json:"readers"`
	Controllers int  `json:"controllers"`
	Crossed     bool `json:"crossed"`
	Group       int  `json:"group,omitempty"`
	// Kernel says that there is a kernel, which all Controllers may ask for runs, and
	// which asks the one Reader.
	Kernel bool `json:"kernel,omitempty"`
}

func (s shape) channels() int {
	switch {
	case s.Crossed:
		return s.Readers * s.Controllers
	case s.Group > 0:
		return s.Readers * s.Group
	}
	return min(s.Readers, s.Controllers)
}

// haveChannel reports whether there is a channel between two of these numbers.
func (s shape) haveChannel(reader, controller int) bool {
	return s.Crossed || reader == controller || s.Group > 0 && reader/s.Group == controller/s.Group
}

func readerName(i int) bcp.AgentName     { return bcp.AgentName(fmt.Sprintf("reader-%d", i)) }
func controllerName(i int) bcp.AgentName { return bcp.AgentName(fmt.Sprintf("main-%d", i)) }

// definition loads the mesh.
func (s shape) definition(interval bool) (*bcp.Mesh, error) {
	mesh, report := definition.Parse(s.files(interval))
	if mesh == nil {
		return nil, fmt.Errorf("the definitions of a measurement are wrong: %v", report.Errors)
	}
	return mesh, nil
}

// files writes the mesh down as an operator would. Its budget is the largest there
// is.
func (s shape) files(interval bool) map[string][]byte {
	if s.Kernel {
		return s.kernelFiles()
	}
	sync := "always"
	if interval {
		sync = "1h"
	}
	files := map[string][]byte{"mesh.yaml": []byte("name: bench\nauditors: [auditor]\nsync: " + sync + "\n")}
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
			if !s.haveChannel(r, c) {
				return ""
			}
			return fmt.Sprintf("  - {peer: %s, role: controller, max_category: 1, budget_bits: 1000000000,\n     subscriptions: [{id: %s, category: 1, "+
				"fields: [{name: urgent, type: boolean}, {name: kind, type: enum, values: [mail, chat, call]}]}]}\n", readerName(r), subscription)
		})
	}
	for r := range s.Readers {
		agent(readerName(r), s.Controllers, func(c int) string {
			if !s.haveChannel(r, c) {
				return ""
			}
			return fmt.Sprintf("  - {peer: %s, role: reader}\n", controllerName(c))
		})
	}
	return files
}

// pushBody is the body of a push, with an id as the SDK makes one.
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
