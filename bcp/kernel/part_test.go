package kernel_test

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// judged is what the gate says of a mail of which content wrote the body.
func judged(t testing.TB, when string, change func(*kernel.Definition), call kernel.Call) kernel.Code {
	t.Helper()
	k := mustKernel(t, func(d *kernel.Definition) {
		d.UntestedRules, d.Rules = true, []kernel.Rule{{ID: "r", Effect: kernel.Declassify, Tool: call.Tool, When: when}}
		if change != nil {
			change(d)
		}
	})
	call.Grant = kernel.NewGrant("mail.send")
	return k.Gate().Judge(&call).Code
}

// literal is an argument that stands in the plan.
func literal(name, value string, label kernel.Label) kernel.Argument {
	a := arg(name, value, label)
	a.Literal = true
	return a
}

// A rule can ask whether a literal stands in the requester's own words: as whole words,
// in one spelling, and never anything that content chose.
// covers KER-1, KER-106
func TestMentions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		task, value string
		want        bool
	}{
		{"Mail it to kim@example.org.", `"kim@example.org"`, true},
		{"to kim@example.org", `"kim@example.org"`, true},
		{"Kim <kim@example.org>, please", `"kim@example.org"`, true},
		{"a@example.org,kim@example.org;b@example.org", `"kim@example.org"`, true},
		{"to Kim@Example.org", `"kim@example.org"`, true},
		{"to 'kim@example.org'!", `"kim@example.org"`, true},
		{"to kim@example.org.evil.example", `"kim@example.org"`, false},
		{"to not-kim@example.org", `"kim@example.org"`, false},
		{"to x+kim@example.org", `"kim@example.org"`, false},
		{"to x.kim@example.org", `"kim@example.org"`, false},
		{"to kim@example.org/x", `"kim@example.org"`, false},
		{"to kim@example.orgs", `"kim@example.org"`, false},
		{"to k\u0131m@example.org", `"kim@example.org"`, false},
		{"to kim@example.org", "\"\u212aim@example.org\"", false},
		{"to kim@example.org\u200b.evil.example", `"kim@example.org"`, false},
		{"to kim@example.org", `"kim@example.org "`, false},
		{"to kim@example.org", `"<kim@example.org>"`, false},
		{"to kim@example.org", `""`, false},
		{"to kim@example.org", `"."`, false},
		{"to kim@example.org", `"to"`, true},
		{"Book  the\nTeam lunch, Monday", `"team lunch, monday"`, true},
		{"Book the Team lunch", `"Team\nlunch"`, false},
		{"Book the Team lunch", `"eam lunch"`, false},
		{"caf\u00e9", `"cafe\u0301"`, false},
		{"cafe\u0301", `"caf\u00e9"`, true},
		{"Pay 1,000.50 to DE89", `"DE89"`, true},
		{"Pay $1,000.50", `"000.50"`, false},
		{"Pay it", `true`, false},
	} {
		to := `{"type":"string"}`
		if c.value == "true" {
			to = `{"type":"boolean"}`
		}
		change := func(d *kernel.Definition) {
			send := sendEmail
			send.Input = mustType(shape("to:"+to, "body:string"))
			d.Tools = []kernel.Tool{send}
		}
		call := kernel.Call{Tool: "send_email", Control: kernel.Trusted(), Arguments: []kernel.Argument{literal("to", c.value, kernel.Trusted()), arg("body", `"x"`, tainted())},
			Asker: kernel.Asker{Task: kernel.Task{Known: true, Text: c.task, Label: kernel.Trusted()}}}
		expect(t, judged(t, "task.mentions(args.to)", change, call) == kernel.Declassified, c.want, "%q mentions %s", c.task, c.value)
		call.Arguments[0] = arg("to", c.value, tainted())
		failIf(t, judged(t, "task.mentions(args.to)", change, call) == kernel.Declassified,
			"%q mentions what content chose", c.task)
	}
}

// Numbers are compared by value, a list is there if all of it is, and what the call does
// not have nobody has to mention.
func TestMentionsOfNumbersAndLists(t *testing.T) {
	t.Parallel()
	task := kernel.Task{Known: true, Text: "Pay 1,000.50 € and 7 to a@example.org and b@example.org", Label: kernel.Trusted()}
	tool := kernel.Tool{Service: "s", Name: "pay", Level: kernel.Write, RequiredCaps: caps("mail.send"), Output: mustType(`{"type":"boolean"}`),
		Input: mustType(`{"type":"object","properties":{"n":{"type":"number"},"to":{"type":"array","maxItems":5,"items":{"type":"string","format":"email"}},"note":{"type":"string"}},"required":["note"]}`)}
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"n", "1000.5", true}, {"n", "7", true}, {"n", "7.0", true}, {"n", "1000", false}, {"n", "0.5", false}, {"n", "50", false}, {"n", "1", false},
		{"to", `["a@example.org"]`, true}, {"to", `["b@example.org","a@example.org"]`, true}, {"to", `["a@example.org","evil@example.org"]`, false}, {"to", "[]", false},
		{"", "", true},
	} {
		call := kernel.Call{Tool: "pay", Control: kernel.Trusted(), Asker: kernel.Asker{Task: task}, Arguments: []kernel.Argument{arg("note", `"x"`, tainted())}}
		if c.name != "" {
			call.Arguments = append(call.Arguments, literal(c.name, c.value, kernel.Trusted()))
		}
		code := judged(t, "task.mentions(args.n) && task.mentions(args.to)", func(d *kernel.Definition) { d.Tools = []kernel.Tool{tool} }, call)
		expect(t, code == kernel.Declassified, c.want, "%s %s: %s", c.name, c.value, code)
	}
}

// Where a value comes from, who may read it, and how much of the task content may have
// chosen: a rule that does not say how many bits it takes sees nothing of such a task.
func TestRulesAboutOrigins(t *testing.T) {
	t.Parallel()
	from := func(tools ...string) kernel.Label {
		l := tainted(kernel.Influence{Origin: "inbox", Bits: 9})
		l.Tools = tools
		return l
	}
	readers := func(names ...kernel.Capability) kernel.Label {
		l := from("inbox")
		l.Readers = kernel.Only(names...)
		return l
	}
	told := kernel.Told(5)
	asMuch := told // a label that names a tool is no literal's
	asMuch.Tools = []string{"inbox"}
	for _, c := range []struct {
		name, when string
		to, body   kernel.Label
		task       kernel.Label
		address    string
		want       bool
	}{
		{"from the tool", `args.body.from("inbox")`, kernel.Trusted(), from("inbox"), kernel.Trusted(), "", true},
		{"from another", `args.body.from("inbox")`, kernel.Trusted(), from("files"), kernel.Trusted(), "", false},
		{"not from another", `!args.body.from("inbox")`, kernel.Trusted(), from("files"), kernel.Trusted(), "", true},
		{"only a part of it: no answer", `args.body.from("inbox")`, kernel.Trusted(), from("files", "inbox"), kernel.Trusted(), "", false},
		{"nor to the opposite", `!args.body.from("inbox")`, kernel.Trusted(), from("files", "inbox"), kernel.Trusted(), "", false},
		{"one of a list", `args.body.from(["inbox", "files"])`, kernel.Trusted(), from("files", "inbox"), kernel.Trusted(), "", true},
		{"nobody knows", `!args.body.from("inbox")`, kernel.Trusted(), from(), kernel.Trusted(), "", false},
		{"no content", `!args.to.from("inbox")`, kernel.Trusted(), from("inbox"), kernel.Trusted(), "", true},

		{"whom it is for", `args.body.readableBy(args.to)`, kernel.Trusted(), readers("kim@example.org", "x@example.org"), kernel.Trusted(), "", true},
		{"somebody else", `args.body.readableBy(args.to)`, kernel.Trusted(), readers("x@example.org", "mail.send"), kernel.Trusted(), "", false},
		{"whom content chose", `args.body.readableBy(args.to)`, from("inbox"), readers("kim@example.org"), kernel.Trusted(), "", false},

		{"no address", `args.to.value != requester.address`, kernel.Trusted(), from("inbox"), kernel.Trusted(), "", false},
		{"another address", `args.to.value != requester.address`, kernel.Trusted(), from("inbox"), kernel.Trusted(), "x@example.org", true},

		{"a task that content may have chosen", `task.mentions(args.to)`, told, from("inbox"), told, "", false},
		{"at a price", `task.influence <= 5 && task.mentions(args.to)`, told, from("inbox"), told, "", true},
		{"above it", `task.influence <= 4 && task.mentions(args.to)`, told, from("inbox"), told, "", false},
		{"its literals are read at a price", `task.influence <= 5 && args.to.value == requester.address`, told, from("inbox"), told, "kim@example.org", true},
		{"and not without", `args.to.value == requester.address`, told, from("inbox"), told, "kim@example.org", false},
		{"what content chose is not", `task.influence <= 5 && args.to.value == requester.address`, from("inbox"), from("inbox"), told, "kim@example.org", false},
		{"nor what is chosen by as much", `task.influence <= 5 && args.to.value == requester.address`, asMuch, from("inbox"), told, "kim@example.org", false},
	} {
		call := kernel.Call{Tool: "send_email", Control: c.task, Arguments: []kernel.Argument{literal("to", `"kim@example.org"`, c.to), arg("body", `"x"`, c.body)},
			Asker: kernel.Asker{Requester: kernel.Requester{Name: "kim", Address: c.address}, Task: kernel.Task{Known: true, Text: "to kim@example.org", Label: c.task}}}
		if len(c.to.Tools) > 0 && c.to.Tools[0] != "?" {
			call.Arguments[0].Literal = false
		}
		expect(t, judged(t, c.when, nil, call) == kernel.Declassified, c.want, "%s", c.name)
	}
}

// The example of the documents, with a typed address: nothing but one address of ours passes.
// covers KER-1
func TestTypedAddressesInRules(t *testing.T) {
	t.Parallel()
	send := sendEmail
	send.Input = mustType(shape(`to:{"type":"array","maxItems":5,"items":{"type":"string","format":"email"}}`, `one:{"type":"string","format":"email","critical":true}`, "body:string"))
	const ours = `args.one.value.endsWith("@example.org") && args.to.value.all(a, a.endsWith("@example.org")) && !args.to.value.exists(a, a == "all@example.org")`
	for value, want := range map[[2]string]kernel.Code{
		{`"kim@example.org"`, `["kim@example.org","x@example.org"]`}: kernel.Declassified,
		{`"kim@example.org"`, `[]`}:                                  kernel.Declassified,
		{`"kim@example.org"`, `["x@evil.example","x@example.org"]`}:  kernel.NotDeclassified,
		{`"kim@example.org"`, `["all@example.org"]`}:                 kernel.NotDeclassified,
		{`"x@evil.example,kim@example.org"`, `[]`}:                   kernel.BadArguments,
		{`"x@evil.example kim@example.org"`, `[]`}:                   kernel.BadArguments,
		{`"x@evil.example\nBcc: kim@example.org"`, `[]`}:             kernel.BadArguments,
		{`"kim@EXAMPLE.org"`, `[]`}:                                  kernel.BadArguments,
		{`"@example.org"`, `[]`}:                                     kernel.BadArguments,
		{`"kim@example.org"`, `["x@evil.example,x@example.org"]`}:    kernel.BadArguments,
		{`"kim@sub@example.org"`, `[]`}:                              kernel.BadArguments,
		{`"kim@evil.example"`, `[]`}:                                 kernel.NotDeclassified,
		{`"kim@xexample.org"`, `[]`}:                                 kernel.NotDeclassified,
	} {
		call := kernel.Call{Tool: "send_email", Control: kernel.Trusted(), Arguments: []kernel.Argument{
			literal("to", value[1], kernel.Trusted()), literal("one", value[0], kernel.Trusted()), arg("body", `"x"`, tainted())}}
		expect(t, judged(t, ours, func(d *kernel.Definition) { d.Tools = []kernel.Tool{send} }, call), want, "%v", value)
	}
}
