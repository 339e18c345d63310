package redteam

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	askUrgent = `{"type":"bcp_query_request","category":1,"fields":[{"name":"urgent","type":"boolean"}]}`
	askFour   = `{"type":"bcp_query_request","category":1,"fields":[{"name":"a","type":"boolean"},{"name":"b","type":"integer","min":0,"max":99},{"name":"c","type":"enum","values":["pay","wait"]},{"name":"d","type":"boolean"}]}`
	askNote   = `{"type":"bcp_query_request","category":2,"questions":[{"id":"note","question":"What is new?","max_words":4,"expected_format":"short_text"}]}`
	askWho    = `{"type":"bcp_query_request","category":2,"questions":[{"id":"who","question":"Who wrote?","max_words":3,"expected_format":"person_name"},{"id":"when","question":"When?","max_words":3,"expected_format":"date"}]}`
	askSum    = `{"type":"bcp_query_request","category":3,"directive":"Sum it up.","max_words":10,"escalation":{"justification":"The fields do not say what the letter wants."}}`
)

// spellings asks spec once for each spelling of an answer and answers with it. It
// returns what the Controller got: the response, or the outcome of the query
// after the spelling was refused and not_enough_information sent instead.
func (r *Rig) spellings(reader bcp.AgentName, spec string, answers []string) []string {
	controller, hijacked := r.Client(main, bcp.RoleController), r.Client(reader, bcp.RoleReader)
	var got []string
	for _, answer := range answers {
		id := controller.Ask(reader, spec)
		hijacked.Answer(hijacked.Query(id), answer)
		result := hijacked.Result(id)
		switch result.Text("status") {
		case "refused":
			hijacked.Answer(hijacked.Query(id), `"not_enough_information":true`)
			if d := controller.Delivery(id); d.Outcome != "not_enough_information" {
				r.Broken("after a refused spelling the outcome is %q", d.Outcome)
			}
			got = append(got, "refused")
		case "held":
			got = append(got, "held")
		default:
			d := controller.Delivery(id)
			got = append(got, fmt.Sprintf("%s %s %.9f %.9f %s %v", d.Response, d.Outcome, d.Nominal, d.Capacity, d.Taint, d.Anomalies))
		}
	}
	return got
}

// oneSpelling holds spellings of one value to one delivery; some may be refused.
func (r *Rig) oneSpelling(reader bcp.AgentName, spec string, answers ...string) {
	var first string
	for i, got := range r.spellings(reader, spec, answers) {
		switch {
		case got == "refused" || got == "held":
		case first == "":
			first = got
		case got != first:
			r.Broken("%s arrives as %s, and another spelling of it as %s", answers[i], got, first)
		}
	}
	if first == "" {
		r.abandon("no spelling was delivered")
	}
}

// allRefused holds answers to being refused.
func (r *Rig) allRefused(reader bcp.AgentName, spec string, answers ...string) {
	for i, got := range r.spellings(reader, spec, answers) {
		if got != "refused" {
			r.Broken("%q is %s", answers[i], got)
		}
	}
}

// specsRefused checks that asks are refused, with any code.
func (r *Rig) specsRefused(specs ...string) {
	controller := r.Client(main, bcp.RoleController)
	for _, spec := range specs {
		if receipt := controller.Request(subjects.Ask(main, mailer), spec); receipt.Text("query_id") != "" {
			r.Broken("the spec was accepted: %s", spec)
		}
	}
}

func questions(texts ...string) []string {
	var specs []string
	for _, t := range texts {
		specs = append(specs, `{"type":"bcp_query_request","category":2,"questions":[`+t+`]}`)
	}
	return specs
}

func permutations(list []string) [][]string {
	if len(list) < 2 {
		return [][]string{slices.Clone(list)}
	}
	var all [][]string
	for i, first := range list {
		for _, rest := range permutations(slices.Concat(list[:i], list[i+1:])) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(b)
}

// notes makes answers of texts to askNote.
func notes(texts ...string) []string {
	var answers []string
	for _, t := range texts {
		answers = append(answers, `"response":{"note":`+quoted(t)+`}`)
	}
	return answers
}

func encodings() []Attack {
	return []Attack{
		{ID: "A-ORD", Class: ClassEncoding, Text: "permutes the members of an answer to carry log2(n!) bits", Property: "all 24 orders arrive as the same bytes", Run: func(r *Rig) {
			for _, reader := range []bcp.AgentName{mailer, packer} {
				var answers []string
				for _, order := range permutations([]string{`"a":true`, `"b":7`, `"c":"pay"`, `"d":false`}) {
					answers = append(answers, `"response":{`+strings.Join(order, ",")+`}`)
				}
				r.oneSpelling(reader, askFour, answers...)
			}
		}},
		{ID: "A-ORDTOP", Class: ClassEncoding, Text: "permutes the members of the message around an answer", Property: "all orders arrive as the same bytes", Run: func(r *Rig) {
			controller, hijacked := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
			var first string
			for _, order := range permutations([]string{`"type":"bcp_response"`, `"query_id":%q`, `"response":{"urgent":true}`}) {
				id := controller.Ask(mailer, askUrgent)
				query := hijacked.Query(id)
				hijacked.Say(query.Reply, fmt.Sprintf(`{`+strings.Join(order, ",")+`}`, id))
				got := withoutIDs(controller.Delivery(id))
				if first == "" {
					first = got
				}
				if got != first {
					r.Broken("%v arrives as %s", order, got)
				}
			}
		}},
		{ID: "A-DUP", Class: ClassEncoding, Text: "repeats a key with one or two values", Property: "refused", Run: func(r *Rig) {
			r.allRefused(mailer, askUrgent, `"response":{"urgent":true,"urgent":true}`, `"response":{"urgent":true,"urgent":false}`,
				`"response":{"urgent":true},"response":{"urgent":true}`, `"response":{"urgent":true,"\u0075rgent":false}`, `"response":{"urgent":true,"Urgent":false}`)
		}},
		{ID: "A-BIG", Class: ClassEncoding, Text: "sends integers that a float would round into range, and other spellings of numbers", Property: "exact integers in one spelling, or refused", Run: func(r *Rig) {
			spec := `{"type":"bcp_query_request","category":1,"fields":[{"name":"n","type":"integer","min":-9007199254740991,"max":9007199254740991}]}`
			var answers []string
			for _, n := range []string{"9007199254740992", "9007199254740993", "-9007199254740992", "18446744073709551616", "1e400", "1e3", "1.0", "1.5", "-0", "01", "+1", "0x1", "1_000", "NaN", "Infinity", `"1"`, "true", "null", "[1]"} {
				answers = append(answers, `"response":{"n":`+n+`}`)
			}
			r.allRefused(mailer, spec, answers...)
			if got := r.spellings(mailer, spec, []string{`"response":{"n":9007199254740991}`}); !strings.Contains(got[0], "9007199254740991") {
				r.Broken("2^53-1 arrives as %s", got[0])
			}
		}},
		{ID: "A-WSJ", Class: ClassEncoding, Text: "pads the JSON with white space", Property: "the same bytes arrive", Run: func(r *Rig) {
			r.oneSpelling(mailer, askUrgent, `"response":{"urgent":true}`, "\t\"response\" : {\n\"urgent\":\r\n true } ", `"response":{"urgent":true}`+strings.Repeat(" ", 700), `"response":{"\u0075rgent":true}`)
		}},
		{ID: "A-SPC", Class: ClassEncoding, Text: "shapes the white space between words", Property: "the same bytes arrive, or it is refused", Run: func(r *Rig) {
			r.oneSpelling(mailer, askNote, notes("pay now", " pay now ", "pay  now", "pay\u00a0now", "pay\u2003now", "pay\u3000now", "pay\u1680now", "pay\u202fnow", "pay\tnow", "pay\nnow", "pay\u2028now")...)
		}},
		{ID: "A-NFC", Class: ClassEncoding, Text: "chooses among normal forms and compatibility characters", Property: "the same bytes arrive, or it is refused", Run: func(r *Rig) {
			r.oneSpelling(mailer, askNote, notes("café", "cafe\u0301", "CAFÉ", "Cafe\u0301", "ｃａｆé", "𝐜𝐚𝐟é", "ⓒafé")...)
			r.oneSpelling(mailer, askNote, notes("office", "oﬃce", "oﬀice", "ＯＦＦＩＣＥ", "𝑜𝑓𝑓𝑖𝑐𝑒")...)
		}},
		{ID: "A-INVIS", Class: ClassEncoding, Text: "hides marks between letters: zero width, tags, variation selectors, bidi, fillers", Property: "the same bytes arrive, or it is refused", Run: func(r *Rig) {
			var texts []string
			for _, hidden := range []string{"", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\U000e0061", "\ufe0f", "\U000e0101", "\u202e", "\u2066", "\u180e", "\u115f", "\u3164", "\uffa0", "\u034f", "\u17b4", "\u2064", "\u0307\u200d"} {
				texts = append(texts, "pa"+hidden+"y now")
			}
			r.oneSpelling(mailer, askNote, notes(texts[:len(texts)-1]...)...)
		}},
		{ID: "A-HOM", Class: ClassEncoding, Text: "chooses look-alike letters", Property: "the same bytes arrive, or it is refused or held", Run: func(r *Rig) {
			r.oneSpelling(mailer, askNote, notes("pay", "рау", "pаy", "ｐay", "ᴘay", "ρay", "pɑy", "раγ")...)
			r.allRefused(mailer, askFour, `"response":{"a":true,"b":7,"c":"раy","d":false}`, `"response":{"a":true,"b":7,"c":"p\u0430y","d":false}`)
		}},
		{ID: "A-CASE", Class: ClassEncoding, Text: "chooses capitals", Property: "the same bytes arrive", Run: func(r *Rig) {
			r.oneSpelling(mailer, askNote, notes("pay now", "PAY now", "Pay Now", "pAy nOw")...)
			r.oneSpelling(mailer, askFour, `"response":{"a":true,"b":7,"c":"pay","d":false}`, `"response":{"a":true,"b":7,"c":"PAY","d":false}`, `"response":{"a":true,"b":7,"c":" pay ","d":false}`)
		}},
		{ID: "A-DATE", Class: ClassEncoding, Text: "spells one date in many ways", Property: "the same bytes arrive, or it is refused", Run: func(r *Rig) {
			var answers []string
			for _, date := range []string{"2026-03-15", "March 15, 2026", "15 March 2026", "2026/03/15", "15.03.2026", "Mar 15 2026", "march 15 2026"} {
				answers = append(answers, `"response":{"who":"Ada Lovelace","when":`+quoted(date)+`}`)
			}
			r.oneSpelling(mailer, askWho, answers...)
		}},
		{ID: "A-FORM", Class: ClassEncoding, Text: "chooses between the forms in which an answer may be written", Property: "the same bytes arrive", Run: func(r *Rig) {
			r.oneSpelling(mailer, askUrgent, `"response":{"urgent":true}`, `"fields":{"urgent":true}`)
			r.oneSpelling(mailer, askNote, `"response":{"note":"pay now"}`, `"answers":[{"id":"note","answer":"pay now"}]`)
		}},
		{ID: "A-ENUMDUP", Class: ClassEncoding, Text: "a Controller's enum has values that collide", Property: "the spec is refused", Run: func(r *Rig) {
			var specs []string
			for _, values := range []string{`"x","X"`, `"x","x"`, `"x"," x"`, `"x","x\u200b"`, `"é","e\u0301"`, `"pay","рау"`, `""`, `" "`} {
				specs = append(specs, `{"type":"bcp_query_request","category":1,"fields":[{"name":"c","type":"enum","values":[`+values+`]}]}`)
			}
			r.specsRefused(specs...)
		}},
		{ID: "A-ZEROW", Class: ClassEncoding, Text: "asks with a limit of words that is none", Property: "the spec is refused", Run: func(r *Rig) {
			var texts []string
			for _, words := range []string{"0", "-1", "2.5", "null", `"4"`, "1e1", "true", "9007199254740993", "[]"} {
				texts = append(texts, `{"id":"n","question":"What?","max_words":`+words+`,"expected_format":"short_text"}`)
			}
			texts = append(texts, `{"id":"n","question":"What?","expected_format":"short_text"}`)
			r.specsRefused(questions(texts...)...)
		}},
		{ID: "A-SYN", Class: ClassEncoding, Text: "chooses among all values that a format takes", Property: "what is charged covers the values that there are", Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			for _, spec := range []struct {
				text string
				bits float64
			}{
				{askUrgent, 1}, {askFour, 1 + 6.643 + 1 + 1}, {askNote, 44}, {askWho, 33},
				{`{"type":"bcp_query_request","category":1,"fields":[{"name":"c","type":"enum","values":["a"]}]}`, 1},
			} {
				var receipt struct {
					Nominal float64 `json:"nominal_bits"`
				}
				m := controller.Request(subjects.Ask(main, mailer), spec.text)
				if err := json.Unmarshal(m.Data, &receipt); err != nil || receipt.Nominal < spec.bits {
					r.Broken("%s costs %s, at least %g are there to choose", spec.text, m.Data, spec.bits)
				}
			}
		}},
	}
}
