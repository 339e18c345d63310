package corpus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
)

// form is a spec of a channel with places for texts.
type form struct {
	channel      bcp.Channel
	subscription bcp.SubscriptionID // empty: a query that the Controller may ask
	spec         bcp.Spec
	validator    *bcp.Validator
	members      []redteam.Member // default values, without a text of a corpus
	texts        []int            // the members that may be any words
}

// kind is the key by which forms are counted.
type kind struct {
	category  bcp.Category
	onAnomaly bcp.OnAnomaly
}

func (f *form) kind() kind { return kind{f.spec.Category, f.channel.OnAnomaly} }

// forms returns those of a mesh: its subscriptions, and the widest queries that its
// channels allow. Channels of kernels are left out: nobody can ask or answer as one.
func forms(m *bcp.Mesh) ([]form, error) {
	var all []form
	for _, ch := range m.Channels {
		if m.IsKernel(ch.Controller) || m.IsKernel(ch.Reader) {
			continue
		}
		settings := ch.Settings(m, constraint.Compile)
		for _, sub := range ch.Subscriptions {
			f, err := newForm(m, ch, sub.Spec, settings.OfSubscription(sub, len(ch.Subscriptions)))
			if err != nil {
				return nil, fmt.Errorf("the subscription %s of %s: %w", sub.ID, ch.Controller, err)
			}
			f.subscription = sub.ID
			all = append(all, f)
		}
		for _, spec := range queries(m) {
			if spec.Category > ch.MaxCategory {
				continue
			}
			f, err := newForm(m, ch, spec, settings)
			if err != nil {
				return nil, fmt.Errorf("a query of category %d to %s: %w", spec.Category, ch.Reader, err)
			}
			all = append(all, f)
		}
	}
	return all, nil
}

func newForm(m *bcp.Mesh, ch bcp.Channel, spec bcp.Spec, settings bcp.Settings) (form, error) {
	v, err := bcp.Compile(spec, settings)
	if err != nil {
		return form{}, err
	}
	f := form{channel: ch, spec: v.Spec(), validator: v, members: redteam.Members(m, v.Spec())}
	for i, member := range f.members {
		if member.Text {
			f.texts = append(f.texts, i)
		}
	}
	return f, nil
}

// queries returns specs that a Controller may ask with: every type and format.
func queries(m *bcp.Mesh) []bcp.Spec {
	least, most := int64(0), int64(1000)
	typed := []bcp.Field{
		{Name: "sure", Type: bcp.TypeBoolean}, {Name: "count", Type: bcp.TypeInteger, Min: &least, Max: &most},
		{Name: "next", Type: bcp.TypeEnum, Values: []string{"pay", "wait", "ask"}},
	}
	question := func(id string, words int, format bcp.Format) bcp.Question {
		return bcp.Question{ID: id, Question: "What is it?", MaxWords: words, ExpectedFormat: format}
	}
	constrained := []bcp.Question{
		question("note", 100, bcp.FormatShortText), question("name", 6, bcp.FormatPersonName), question("list", 20, bcp.FormatShortList),
		question("mail", 1, bcp.FormatEmail), question("day", 3, bcp.FormatDate), question("hour", 2, bcp.FormatTime),
		question("many", 1, bcp.FormatInteger), question("true", 1, bcp.FormatBoolean),
	}
	divided := []bcp.Question{question("first", 8, bcp.FormatShortText), question("then", 8, bcp.FormatShortText), question("last", 8, bcp.FormatShortText)}
	return []bcp.Spec{
		{Category: 1, Fields: typed}, {Category: 2, Questions: constrained}, {Category: 2, Questions: divided},
		{Category: 3, Directive: "Sum it up.", MaxWords: 200},
	}
}

// answer encodes an answer with texts in place of some members' values.
func (f *form) answer(texts map[int]string) (string, error) {
	members := slices.Clone(f.members)
	for i, text := range texts {
		b, err := json.Marshal(text)
		if err != nil {
			return "", err
		}
		members[i].Value = string(b)
	}
	return redteam.Object(members), nil
}

// maxWords is how many words a member may have.
func (f *form) maxWords(member int) int {
	switch f.spec.Category {
	case 2:
		return f.spec.Questions[member].MaxWords
	case 3:
		return f.spec.MaxWords
	}
	return 1
}

// format returns that of a member; empty for a field.
func (f *form) format(member int) string {
	switch f.spec.Category {
	case 2:
		return f.spec.Questions[member].ExpectedFormat.String()
	case 3:
		return "summary"
	}
	return ""
}

// sampleFiles are a mesh with a Reader and a Controller for each on_anomaly.
func sampleFiles() map[string]string {
	files := map[string]string{"mesh.yaml": "approvers: [ann]\nsync: 1h\n"}
	for _, on := range []string{"hold", "hold_all", "reject", "flag"} {
		controller, reader := "m-"+strings.ReplaceAll(on, "_", "-"), "r-"+strings.ReplaceAll(on, "_", "-")
		files[controller+".md"] = "---\nname: " + controller + "\nbcp_channels:\n  - peer: " + reader + "\n    role: controller\n    max_category: 3\n    budget_bits: 1000000000\n    on_anomaly: " + on + `
    subscriptions:
      - {id: state, category: 1, fields: [{name: urgent, type: boolean}, {name: count, type: integer, min: 0, max: 99}, {name: next, type: enum, values: [pay, wait]}]}
      - {id: note, category: 2, questions: [{id: note, question: "What is new?", max_words: 12, expected_format: short_text}]}
      - {id: who, category: 2, questions: [{id: name, question: "Who is it?", max_words: 5, expected_format: person_name}, {id: mail, question: "What address?", max_words: 1, expected_format: email}]}
      - {id: list, category: 2, questions: [{id: list, question: "What is in it?", max_words: 15, expected_format: short_list}]}
      - {id: parts, category: 2, questions: [{id: a, question: "What is first?", max_words: 6, expected_format: short_text}, {id: b, question: "What is next?", max_words: 6, expected_format: short_text}, {id: c, question: "What is last?", max_words: 6, expected_format: short_text}]}
      - {id: digest, category: 3, directive: "Sum it up.", max_words: 100}
---
`
		files[reader+".md"] = "---\nname: " + reader + "\nbcp_channels:\n  - {peer: " + controller + ", role: reader}\n---\n"
	}
	return files
}

// Sample returns the default mesh: a channel for each on_anomaly, with every kind of
// subscription.
func Sample() (*bcp.Mesh, error) {
	texts := map[string][]byte{}
	for name, text := range sampleFiles() {
		texts[name] = []byte(text)
	}
	m, report := definition.Parse(texts)
	if m == nil {
		return nil, fmt.Errorf("the sample: %v", report.Errors)
	}
	return m, nil
}
