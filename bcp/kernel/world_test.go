package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// The kernel of most tests: a mailbox, contacts, sending mail, a calendar.

func mustType(s string) *kernel.Type { return must(kernel.ParseType([]byte(s))) }

func mustSpec(s string) bcp.Spec { return must(bcp.ParseSpec([]byte(s))) }

// shape makes a closed object of name:type pairs; a type is a word or JSON.
func shape(pairs ...string) string {
	var properties []string
	for _, pair := range pairs {
		name, word, _ := strings.Cut(pair, ":")
		if !strings.HasPrefix(word, "{") {
			word = fmt.Sprintf(`{"type":%q}`, word)
		}
		properties = append(properties, fmt.Sprintf("%q:%s", name, word))
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`
}

var (
	readInbox = kernel.Tool{
		Service: "mail", Name: "read_inbox", Level: kernel.Read, RequiredCaps: caps("mail.read"), Subjects: kernel.SubjectUser,
		Input: mustType(shape()), Output: mustType(shape("latest:" + shape("sender:string", "subject:string", "body:string"))),
	}
	readContacts = kernel.Tool{
		Service: "mail", Name: "read_contacts", Level: kernel.Read, RequiredCaps: caps("contacts.read"), Subjects: kernel.ThirdParty,
		Input: mustType(shape()), Output: mustType(shape(`contacts:{"type":"array","items":` + shape("name:string", "email:string") + `}`)),
	}
	sendEmail = kernel.Tool{
		Service: "mail", Name: "send_email", Level: kernel.Write, RequiredCaps: caps("mail.send"),
		Input: mustType(shape("to:string", "body:string")), Output: mustType(shape("ok:boolean", "message_id:string")),
	}
	createEvent = kernel.Tool{
		Service: "calendar", Name: "create_event", Level: kernel.Write, RequiredCaps: caps("calendar.write"), Idempotency: kernel.ByKey,
		Input: mustType(shape("title:string", `slot:{"enum":["mon","tue","wed"]}`)), Output: mustType(shape("ok:boolean")),
	}
	count = kernel.Tool{
		Service: "mail", Name: "count", Level: kernel.Pure, Input: mustType(shape(`words:{"type":"array","items":{"type":"string"}}`)),
		Output: mustType(shape(`n:{"type":"integer","minimum":0,"maximum":7}`, "many:boolean")),
	}

	summary = kernel.Schema{Name: "Summary", Reader: "mailreader", Spec: mustSpec(`{"category":2,"questions":[{"id":"text","question":"What does it say?","max_words":20,"expected_format":"short_text"}]}`)}
	slot    = kernel.Schema{Name: "Slot", Reader: "mailreader", Spec: mustSpec(`{"category":1,"fields":[{"name":"urgent","type":"boolean"},{"name":"slot","type":"enum","values":["mon","tue","wed"]},{"name":"n","type":"integer","min":0,"max":9}]}`)}

	mailToSelf = kernel.Rule{
		ID: "mail-to-self", Effect: kernel.Declassify, Tool: "send_email", When: "!args.body.third_party && !args.to.tainted && args.to.value == requester.address",
		Yes: []kernel.Example{{Asker: asked, Control: kernel.Trusted(), Arguments: map[string]kernel.ExampleArgument{"to": {Value: val(`"kim@example.com"`), Label: kernel.Trusted()}, "body": {Label: tainted()}}}},
		No:  []kernel.Example{{Asker: asked, Control: kernel.Trusted(), Arguments: map[string]kernel.ExampleArgument{"to": {Value: val(`"evil@example.com"`), Label: kernel.Trusted()}, "body": {Label: tainted()}}}},
	}

	kim   = kernel.Requester{Name: "kim", Address: "kim@example.com"}
	asked = kernel.Asker{Requester: kim, Task: kernel.Task{Known: true, Text: "Send it to me.", Label: kernel.Trusted()}}
	start = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
)

func caps(names ...kernel.Capability) []kernel.Capability { return names }

func val(s string) *kernel.Value { return new(must(kernel.ParseValue([]byte(s)))) }

// tainted is the label of what a tool read, allowed nowhere.
func tainted(bits ...kernel.Influence) kernel.Label {
	return kernel.Label{Sources: kernel.UserQuery | kernel.ToolRead, Readers: kernel.Only(), Parsers: kernel.Anything(), Influence: bits}
}

func thirdParty() kernel.Label {
	l := tainted()
	l.Subjects = kernel.ThirdParty
	return l
}

// definition is a kernel with all of the above, which kim may start with every
// capability.
func definition() kernel.Definition {
	return kernel.Definition{
		Name: "desk", Planner: "planner", SubPlanner: "subplanner", Limits: kernel.DefaultLimits(),
		Requesters: map[bcp.AgentName][]string{"kim": {"all", "read"}},
		Grants: map[string][]kernel.Capability{
			"all": caps("mail.read", "contacts.read", "mail.send", "calendar.write"), "read": caps("mail.read"),
		},
		Tools:   []kernel.Tool{readInbox, readContacts, sendEmail, createEvent, count},
		Schemas: []kernel.Schema{withConstraints(summary), withConstraints(slot)},
		Rules:   []kernel.Rule{mailToSelf},
	}
}

func withConstraints(s kernel.Schema) kernel.Schema {
	s.Settings.Constraints = constraint.Compile
	return s
}

func mustKernel(t fataler, change func(*kernel.Definition)) *kernel.Kernel {
	t.Helper()
	d := definition()
	if change != nil {
		change(&d)
	}
	k, defects := kernel.New(d)
	stopIf(t, len(defects) > 0, "%v", defects)
	return k
}

// frame is where plans of tests are checked.
func frame(k *kernel.Kernel, grant string) kernel.Frame {
	g, _ := k.GrantOf("kim", grant)
	return kernel.Frame{Grant: g, Query: kernel.Trusted(), Asker: asked}
}

const mailPlan = `{"steps":[{"kind":"const","id":"me","value":"kim@example.com"},{"kind":"tool","id":"inbox","tool":"read_inbox","args":{}},
{"kind":"q_parse","id":"summary","source":{"ref":"inbox","path":"latest.body"},"schema_ref":"Summary","instruction":"Summarise it."},
{"kind":"tool","id":"send","tool":"send_email","args":{"to":{"ref":"me"},"body":{"ref":"summary","path":"text"}}}],"final":"send"}`

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var noError, fails, failIf, stopIf = bcptest.NoError, bcptest.Fails, bcptest.FailIf, bcptest.StopIf

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
