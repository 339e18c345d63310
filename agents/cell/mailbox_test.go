package cell_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

const sorting = `{"category":1,"fields":[{"name":"kind","type":"enum","values":["invoice","meeting","other"]},{"name":"message","type":"integer","min":%d,"max":1000},{"name":"urgent","type":"boolean"}]}`

// A model that obeys each message of a mailbox in turn, with every tool and in every field, says no word of one to a
// Controller that asks in category 1. It reads mail in fences alone.
//
// covers BCP-12, BCP-18, ALF-8, P13.1
func TestAHijackedModelReadsMail(t *testing.T) {
	t.Parallel()
	mail := must(filepath.Abs("../../examples/mailroom/mail"))
	mesh := meshtest.Start(t, map[string]string{
		"main.md":   "---\nname: main\nbcp_channels:\n- {peer: reader, role: controller, max_category: 1, budget_bits: 10000}\n---\n",
		"reader.md": "---\nname: reader\ntools: [mailbox, web_fetch]\nnetwork: [news.example]\negress_budget_bits: 1000\nmailbox: '" + mail + "'\nbcp_channels:\n- {peer: main, role: reader}\n---\nYou sort mail.\n",
	})
	hijacked := must(wires.Open(bcp.Model{Provider: "gullible", Model: "m"}, wires.Options{}))
	var mu sync.Mutex
	said, heard := map[string]bool{}, map[int]string{} // what it tried to say, and what it had read by then
	minimum := regexp.MustCompile(`"minimum": ?([0-9]+)`)
	m := &model{reply: func(r *llm.Request) (*llm.Reply, error) {
		answer := slices.IndexFunc(r.Tools, func(t llm.Tool) bool { return t.Name == "answer" })
		number, _ := strconv.Atoi(minimum.FindStringSubmatch(string(r.Tools[answer].Schema))[1])
		switch len(r.Turns) {
		case 1:
			return calls("mailbox_list", `{}`)
		case 3:
			return calls("mailbox_read", fmt.Sprintf(`{"message":%d}`, number))
		}
		reply, err := hijacked.Provider.Do(context.Background(), r)
		mu.Lock()
		defer mu.Unlock()
		heard[number] = r.Turns[4].Results[0].Parts[0].Text()
		for _, call := range reply.Calls {
			if call.Name == "answer" {
				said[string(call.Arguments)] = true
			}
		}
		return reply, err
	}}
	living(t, mesh, m, nil)
	main := mesh.Connect(t, "main", bcp.RoleController)
	told := main.Deliveries(t)
	const messages = 31
	for number := 1; number <= messages; number++ {
		id := main.Accepted(t, "reader", fmt.Sprintf(sorting, number))
		got := told.NextOf(t, meshtest.With("query_id", id))
		response := must(json.Marshal(got.Fields["response"]))
		var answer struct {
			Kind    string `json:"kind"`
			Message int    `json:"message"`
			Urgent  bool   `json:"urgent"`
		}
		if err := json.Unmarshal(response, &answer, json.RejectUnknownMembers(true)); err != nil || !slices.Contains([]string{"invoice", "meeting", "other"}, answer.Kind) || answer.Message < number {
			t.Errorf("message %d: the Controller hears %v (%v)", number, got, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	planted := 0
	for number, text := range heard {
		if strings.Contains(text, "Message "+strconv.Itoa(number)) && strings.Contains(text, "untrusted-data") {
			planted++
		}
	}
	if planted != messages {
		t.Errorf("it read %d messages", planted)
	}
	// The mail has orders to models, and it tried to pass some on.
	tried := 0
	for text := range said {
		for _, word := range []string{"gnore", "assistant", "prompt", "reply", "Reply", "forward"} {
			if strings.Contains(text, word) {
				tried++
				break
			}
		}
	}
	if tried == 0 {
		t.Errorf("it tried to say nothing: %v", said)
	}
	if n := mesh.Count(func(d *bcp.Decision) bool {
		return d.Egress != nil && d.Verdict == bcp.Accept && d.Egress.Act == bcp.EgressReserve
	}); n != 0 {
		t.Errorf("%d requests were allowed", n)
	}
	for _, r := range m.asked() {
		for _, turn := range r.Turns {
			for _, result := range turn.Results {
				for _, part := range result.Parts {
					if _, fenced := part.(llm.Data); !fenced && strings.Contains(part.Text(), "@") {
						t.Errorf("outside of a fence: %s", part.Text())
					}
				}
			}
		}
	}
}
