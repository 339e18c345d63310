package leakage

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/redteam"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// The agents of the meshes: main asks mailer in JSON and packer in MessagePack; boss and
// clerk are next door.
const (
	main   bcp.AgentName = "main"
	mailer bcp.AgentName = "mailer"
	packer bcp.AgentName = "packer"
	boss   bcp.AgentName = "boss"
	clerk  bcp.AgentName = "clerk"
)

const (
	closedChannel = "\n    role: controller\n    max_category: 2\n    budget_bits: 1000000\n    max_retries: 20\n    subscriptions:\n      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}"
	closedMesh    = "approvers: [ann]\nmax_refusals: 6000/m\nsync: 1h\n"
)

var closedFiles = map[string]string{
	"mesh.yaml": closedMesh,
	"main.md":   "---\nname: main\nbcp_channels:\n  - peer: mailer" + closedChannel + "\n  - peer: packer" + closedChannel + "\n---\n",
	"mailer.md": "---\nname: mailer\nbcp_channels:\n  - {peer: main, role: reader}\n---\n",
	"packer.md": "---\nname: packer\nencoding: msgpack\nbcp_channels:\n  - {peer: main, role: reader}\n---\n",
	"boss.md":   "---\nname: boss\nbcp_channels:\n  - peer: clerk" + closedChannel + "\n---\n",
	"clerk.md":  "---\nname: clerk\nbcp_channels:\n  - {peer: boss, role: reader}\n---\n",
}

const (
	askFour = `{"type":"bcp_query_request","category":1,"fields":[{"name":"a","type":"boolean"},{"name":"b","type":"integer","min":0,"max":99},{"name":"c","type":"enum","values":["pay","wait"]},{"name":"d","type":"boolean"}]}`
	askNote = `{"type":"bcp_query_request","category":2,"questions":[{"id":"note","question":"What is new?","max_words":4,"expected_format":"short_text"}]}`
	askWhen = `{"type":"bcp_query_request","category":2,"questions":[{"id":"when","question":"When?","max_words":3,"expected_format":"date"},{"id":"many","question":"How many?","max_words":1,"expected_format":"integer"}]}`
)

// closedForm is a way to say the same thing in several forms: two calls of say with the
// same values differ only in the form, which is random.
type closedForm struct {
	id, text string
	reader   bcp.AgentName
	ask      string
	values   func(*rand.Rand) []string
	say      func(c *closedRig, query redteam.Message, values []string)
}

// closedRig is a rig on which forms are compared.
type closedRig struct {
	*redteam.Rig
	random                         *rand.Rand
	controller, reader, next, boss *redteam.Client
}

func (c *closedRig) pick(texts ...string) string { return texts[c.random.IntN(len(texts))] }

func fourValues(random *rand.Rand) []string {
	return []string{fmt.Sprintf(`"a":%t`, random.IntN(2) == 1), fmt.Sprintf(`"b":%d`, random.IntN(100)), fmt.Sprintf(`"c":%q`, []string{"pay", "wait"}[random.IntN(2)]), fmt.Sprintf(`"d":%t`, random.IntN(2) == 1)}
}

var noteWords = []string{"pay", "now", "café", "order", "naïve", "report", "moved", "ready"}

func noteValues(random *rand.Rand) []string {
	words := make([]string, 1+random.IntN(4))
	for i := range words {
		words[i] = noteWords[random.IntN(len(noteWords))]
	}
	return words
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

func (c *closedRig) answer(query redteam.Message, response string) {
	c.reader.Answer(query, `"response":`+response)
}

func object(values []string) string { return "{" + strings.Join(values, ",") + "}" }

func (c *closedRig) space() string {
	return strings.Repeat(c.pick(" ", "\t", "\n", "\r\n", ""), c.random.IntN(4))
}

// closedForms returns the forms in which an answer may be written and that a
// Controller never learns.
func closedForms() []closedForm {
	return []closedForm{
		{"C-ORDER", "the order of members, in an answer and around it", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			c.random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
			around := []string{`"type":"bcp_response"`, fmt.Sprintf(`"query_id":%q`, query.Text("query_id")), `"response":` + object(values)}
			c.random.Shuffle(len(around), func(i, j int) { around[i], around[j] = around[j], around[i] })
			c.reader.Say(query.Reply, object(around))
		}},
		{"C-BLANK", "white space in the JSON", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			for i, v := range values {
				name, value, _ := strings.Cut(v, ":")
				values[i] = c.space() + name + c.space() + ":" + c.space() + value + c.space()
			}
			c.reader.Say(query.Reply, fmt.Sprintf(`{"type":"bcp_response",%s"query_id":%q,"response":%s}%s`, c.space(), query.Text("query_id"), object(values), c.space()))
		}},
		{"C-ESCAPE", "escapes in strings and names", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			for i := range values {
				for _, letter := range []string{"a", "b", "c", "d", "y", "w"} {
					if c.random.IntN(2) == 1 {
						values[i] = escapeIn(values[i], letter)
					}
				}
			}
			c.answer(query, object(values))
		}},
		{"C-SIZE", "the size of the message", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			c.answer(query, object(values)+strings.Repeat(" ", c.random.IntN(900)))
		}},
		{"C-CASE", "capitals", mailer, askNote, noteValues, func(c *closedRig, query redteam.Message, words []string) {
			for i := range words {
				words[i] = c.pick(words[i], strings.ToUpper(words[i]), strings.ToUpper(words[i][:1])+words[i][1:])
			}
			c.answer(query, `{"note":`+quoted(strings.Join(words, " "))+`}`)
		}},
		{"C-SPACE", "blanks between words and around them", mailer, askNote, noteValues, func(c *closedRig, query redteam.Message, words []string) {
			text := ""
			for i, w := range words {
				if i > 0 {
					text += c.pick(" ", "  ", "\u00a0", "\u2003", "\u3000", "\t", " \u2009")
				}
				text += w
			}
			c.answer(query, `{"note":`+quoted(c.pick("", " ", "\u00a0")+text+c.pick("", " ", "\n"))+`}`)
		}},
		{"C-UNICODE", "normal forms, compatibility characters and letters that look alike", mailer, askNote, noteValues, func(c *closedRig, query redteam.Message, words []string) {
			for i := range words {
				for _, pair := range [][2]string{{"é", "e\u0301"}, {"ï", "i\u0308"}, {"a", "ａ"}, {"o", "𝐨"}, {"e", "ⓔ"}, {"y", "ｙ"}} {
					if c.random.IntN(2) == 1 {
						words[i] = strings.ReplaceAll(words[i], pair[0], pair[1])
					}
				}
			}
			c.answer(query, `{"note":`+quoted(strings.Join(words, " "))+`}`)
		}},
		{"C-DATE", "spellings of a date and of a number", mailer, askWhen, func(random *rand.Rand) []string {
			return []string{fmt.Sprint(2000 + random.IntN(50)), fmt.Sprint(random.IntN(12)), fmt.Sprint(10 + random.IntN(18)), fmt.Sprint(random.IntN(1000))}
		}, func(c *closedRig, query redteam.Message, v []string) {
			months := []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
			var month int
			_, _ = fmt.Sscan(v[1], &month) // we wrote it
			date := c.pick(fmt.Sprintf("%s-%02d-%s", v[0], month+1, v[2]), fmt.Sprintf("%s %s %s", v[2], months[month], v[0]), fmt.Sprintf("%s %s, %s", months[month], v[2], v[0]), strings.ToLower(months[month])+" "+v[2]+" "+v[0])
			number := c.pick(v[3], " "+v[3], arabic(v[3]), v[3]+" ")
			c.answer(query, object([]string{`"when":` + quoted(date), `"many":` + quoted(number)}))
		}},
		{"C-FORM", "the forms in which an answer may be given", mailer, askNote, noteValues, func(c *closedRig, query redteam.Message, words []string) {
			text := quoted(strings.Join(words, " "))
			c.reader.Answer(query, c.pick(`"response":{"note":`+text+`}`, `"answers":[{"id":"note","answer":`+text+`}]`, `"answers":[{"answer":`+text+`,"id":"note"}]`))
		}},
		{"C-HEADER", "headers, whatever they are", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			msg := &nats.Msg{Subject: query.Reply, Data: fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"response":%s}`, query.Text("query_id"), object(values)), Header: nats.Header{}}
			for range c.random.IntN(4) {
				msg.Header.Set(c.pick("X-Secret", "Traceparent", "Content-Type", "Priority", "Nats-TTL2"), fmt.Sprint(c.random.Uint64()))
			}
			c.reader.SayRaw(msg)
		}},
		{"C-RETRY", "how often it answers wrong before, and how", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			for range c.random.IntN(4) {
				c.reader.Answer(query, c.pick(`"response":{}`, `"response":{"a":1}`, `"response":[]`, `"nothing":true`, `"response":{"a":true,"b":777,"c":"pay","d":true}`, `"response":`+quoted(strings.Repeat("x", c.random.IntN(300)))))
				query = c.reader.Query(query.Text("query_id"))
			}
			c.answer(query, object(values))
		}},
		{"C-ENCODING", "widths and kinds of MessagePack", packer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			id := query.Text("query_id")
			for c.reader.SayRaw(&nats.Msg{Subject: query.Reply, Data: c.packed(id, values)}); c.reader.Result(id).Text("status") == "refused"; {
				c.answer(c.reader.Query(id), object(values)) // not every form is taken
			}
		}},
		{"C-PUSHID", "ids of refused pushes, and how many there are", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			for range c.random.IntN(3) {
				c.reader.Push(main, "alerts", c.pick(`{"urgent":7}`, `{}`, `{"urgent":"x"}`), fmt.Sprintf(`,"push_id":"p%d"`, c.random.Uint64()))
			}
			c.answer(query, object(values))
		}},
		{"C-NEXTDOOR", "what is said on another channel meanwhile", mailer, askFour, fourValues, func(c *closedRig, query redteam.Message, values []string) {
			for range c.random.IntN(20) {
				c.next.Push(boss, "alerts", c.pick(`{"urgent":true}`, `{"urgent":9}`), "")
			}
			c.answer(query, object(values))
		}},
	}
}

// escapeIn writes one letter as an escape, within quotation marks.
func escapeIn(member, letter string) string {
	parts := strings.Split(member, `"`)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], letter, fmt.Sprintf(`\u%04x`, letter[0]))
	}
	return strings.Join(parts, `"`)
}

// arabic writes a number in Arabic-Indic digits.
func arabic(n string) string {
	return strings.Map(func(r rune) rune { return r - '0' + '٠' }, n)
}

// packed writes an answer to askFour in MessagePack, in a random one of its forms.
func (c *closedRig) packed(id string, values []string) []byte {
	text := func(s string) []byte {
		heads := [][]byte{{0xd9, byte(len(s))}, {0xda, 0, byte(len(s))}, {0xa0 | byte(len(s))}}
		if len(s) > 31 { // too long for the shortest
			heads = heads[:2]
		}
		return append(heads[c.random.IntN(len(heads))], s...)
	}
	mapOf := func(n byte) []byte {
		return [][]byte{{0xde, 0, n}, {0xdf, 0, 0, 0, n}, {0x80 | n}}[c.random.IntN(3)]
	}
	value := func(s string) []byte {
		switch {
		case s == "true":
			return []byte{0xc3}
		case s == "false":
			return []byte{0xc2}
		case s[0] == '"':
			return text(strings.Trim(s, `"`))
		}
		var n byte
		_, _ = fmt.Sscan(s, &n) // we wrote it
		return [][]byte{{n}, {0xcc, n}, {0xcd, 0, n}, {0xce, 0, 0, 0, n}, {0xd1, 0, n}, {0xd3, 0, 0, 0, 0, 0, 0, 0, n}}[c.random.IntN(6)]
	}
	b := mapOf(3)
	b = append(append(b, text("type")...), text("bcp_response")...)
	b = append(append(b, text("query_id")...), text(id)...)
	b = append(append(b, text("response")...), mapOf(byte(len(values)))...)
	for _, v := range values {
		name, v, _ := strings.Cut(v, ":")
		b = append(append(b, text(strings.Trim(name, `"`))...), value(v)...)
	}
	return b
}

// randomIDs matches the random parts of a message to a Controller.
var randomIDs = regexp.MustCompile(`"(query_id|delivery_id|session_id)":"([^"]*)"`)

// leftBits matches members with the rest of a budget.
var leftBits = regexp.MustCompile(`"[a-z_]*remaining[a-z_]*":[0-9.]+`)

// transcript returns what a Controller observed, with random ids replaced by their order.
// Deliveries repeated because of a late acknowledgement occur once.
func transcript(observed []redteam.Message) string {
	ids, before := map[string]int{}, map[string]bool{}
	known := func(id string) string {
		if _, ok := ids[id]; !ok {
			ids[id] = len(ids)
		}
		return fmt.Sprintf("#%d of %d", ids[id], len(id))
	}
	var b strings.Builder
	for _, m := range observed {
		if m.Text("delivery_id") != "" && before[string(m.Data)] {
			continue
		}
		before[string(m.Data)] = true
		data := randomIDs.ReplaceAllStringFunc(string(m.Data), func(member string) string {
			parts := randomIDs.FindStringSubmatch(member)
			return fmt.Sprintf(`%q:%q`, parts[1], known(parts[2]))
		})
		subject := m.Subject
		if strings.HasPrefix(subject, subjects.InboxPrefix(main)) {
			subject = "inbox"
		}
		fmt.Fprintf(&b, "%s, reply of %d, header %v: %s\n", subject, len(m.Reply), m.Header, data)
	}
	return b.String()
}

// play has the Controller ask and look around, and the Reader answer in some form.
func (c *closedRig) play(f closedForm, values []string) string {
	session := subjects.Session(main)
	c.controller.Request(session, `{"verb":"open"}`)
	id := c.controller.Ask(f.reader, f.ask)
	f.say(c, c.reader.Query(id), append([]string(nil), values...))
	c.controller.Delivery(id)
	c.controller.Request(session, `{"verb":"channels"}`)
	c.controller.Request(session, `{"verb":"close"}`)
	return transcript(c.controller.Observed())
}

// compare compares pairs that differ only in the form.
func (t *trial) compare(f closedForm) {
	broken, err := redteam.Use(t.ctx, redteam.Setup{State: t.config.State, Name: f.id, Files: closedFiles, Edit: patient, Seed: t.config.Seed}, func(r *redteam.Rig) {
		c := &closedRig{Rig: r, random: r.Rand(), controller: r.Client(main, bcp.RoleController), reader: r.Client(f.reader, bcp.RoleReader), next: r.Client(clerk, bcp.RoleReader), boss: r.Client(boss, bcp.RoleController)}
		c.controller.Observe()
		c.boss.Observe()
		c.play(f, f.values(c.random)) // the first raises taint
		t.result.Closed = &Pairs{}
		for t.result.Closed.Pairs < t.config.Pairs {
			values := f.values(c.random)
			one, other := c.play(f, values), c.play(f, values)
			t.result.Closed.Pairs++
			if one != other {
				r.Broken("after %d pairs %v comes as\n%s\nand as\n%s", t.result.Closed.Pairs, values, one, other)
				return
			}
			c.reader.Observed()
			c.next.Observed()
			c.boss.Observed()
		}
	})
	t.result.Evidence, t.err = append(t.result.Evidence, broken...), err
}

// patient makes a mesh refuse as often as it is asked to.
func patient(m *bcp.Mesh) { m.MaxRefusals = 1 << 30 }
