package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// payTool is a write with a choice, a number and a text.
var payTool = kernel.Tool{
	Service: "bank", Name: "pay", Level: kernel.Write, RequiredCaps: caps("bank.pay"),
	Input: mustType(`{"type":"object","properties":{"to":{"type":"string"},"amount":{"type":"number","minimum":0,"maximum":1000000},
		"cents":{"type":"integer","minimum":0,"maximum":99},"tags":{"type":"array","items":{"type":"string"}},"note":{"type":"string","nullable":true},
		"meta":{"type":"object","properties":{"urgent":{"type":"boolean"}}}},"required":["to","amount"]}`),
	Output: mustType(shape("ok:boolean")),
}

// arg makes an argument; a label of no sources means the requester's.
func arg(name, value string, label kernel.Label) kernel.Argument {
	if label.Sources == 0 {
		label = kernel.Trusted()
	}
	return kernel.Argument{Name: name, Value: val(value), Label: label}
}

func rule(id string, effect kernel.RuleEffect, when string) kernel.Rule {
	return kernel.Rule{ID: id, Effect: effect, Tool: "pay", When: when}
}

func readsData(r kernel.Rule) kernel.Rule { r.ReadsData = true; return r }

// mayFlow is a tainted label that may flow into what needs the capabilities.
func mayFlow(names ...kernel.Capability) kernel.Label {
	l := tainted()
	l.Readers = kernel.Only(names...)
	return l
}

// returnedBy is the label of what a tool returned, and readFrom that of what a Reader made of it.
func returnedBy(tools ...string) kernel.Label {
	return kernel.Label{Sources: kernel.UserQuery | kernel.ToolRead, Readers: kernel.Only(), Tools: tools}
}

func readFrom(tool string) kernel.Label {
	l := returnedBy(tool)
	l.Sources |= kernel.ReaderAnswer
	return l
}

// covers KER-13, KER-15, KER-25, KER-30, KER-31, KER-32, KER-33, KER-48, KER-95, KER-96, KER-104, KER-105, C-23
func TestGate(t *testing.T) {
	t.Parallel()
	clean := kernel.Label{}
	to, amount := arg("to", `"DE89"`, clean), arg("amount", `12`, clean)
	chosen := tainted(kernel.Influence{Origin: "p", Bits: 8})
	read := func(t *kernel.Tool) { t.Level = kernel.Read }
	inbox := payTool
	inbox.Service, inbox.Name = "mail", "inbox"
	forbid, declassify, ask := kernel.Forbid, kernel.Declassify, kernel.Ask
	for _, c := range []struct {
		name   string
		change func(*kernel.Tool)
		grant  []kernel.Capability
		rules  []kernel.Rule
		args   []kernel.Argument
		depth  int
		want   kernel.Ruling
		code   kernel.Code
		ids    string
	}{
		{"what the requester said", nil, caps("bank.pay"), nil, []kernel.Argument{to, amount}, 0, kernel.Allow, kernel.Permitted, ""},

		// Capabilities.
		{"no grant", nil, nil, nil, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.NoCapability, ""},
		{"another capability", nil, caps("bank.read"), nil, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.NoCapability, ""},
		{"a wildcard", nil, caps("*", "bank.*", ">"), nil, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.NoCapability, ""},
		{"one of two", func(t *kernel.Tool) { t.RequiredCaps = caps("bank.pay", "b") }, caps("bank.pay"), nil, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.NoCapability, ""},
		{"both of two", func(t *kernel.Tool) { t.RequiredCaps = caps("bank.pay", "b") }, caps("b", "bank.pay"), nil, []kernel.Argument{to, amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"capability before schema", nil, nil, nil, nil, 0, kernel.Deny, kernel.NoCapability, ""},

		// The schema: strict, nothing coerced.
		{"an argument too few", nil, caps("bank.pay"), nil, []kernel.Argument{to}, 0, kernel.Deny, kernel.BadArguments, ""},
		{"an argument too many", nil, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("bcc", `"x"`, clean)}, 0, kernel.Deny, kernel.BadArguments, ""},
		{"an argument twice, the first as a rule wants it", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "!args.to.tainted")}, []kernel.Argument{to, arg("to", `"EVIL"`, chosen), amount}, 0, kernel.Deny, kernel.BadArguments, ""},
		{"a number with a fraction", nil, caps("bank.pay"), nil, []kernel.Argument{to, arg("amount", `98.7`, clean)}, 0, kernel.Allow, kernel.Permitted, ""},
		{"null", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `null`, clean), amount}, 0, kernel.Deny, kernel.BadArguments, ""},
		{"a value that nobody gave", nil, caps("bank.pay"), nil, []kernel.Argument{{Name: "to", Label: kernel.Trusted()}, amount}, 0, kernel.Deny, kernel.BadArguments, ""},
		{"schema before rules", nil, caps("bank.pay"), []kernel.Rule{rule("no", forbid, "true")}, []kernel.Argument{to}, 0, kernel.Deny, kernel.BadArguments, ""},
		{"a read is checked as well", read, caps("bank.pay"), nil, []kernel.Argument{to}, 0, kernel.Deny, kernel.BadArguments, ""},

		// Provenance.
		{"tainted", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, tainted()), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"third party, and not tainted", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, kernel.Label{Sources: kernel.UserQuery, Subjects: kernel.ThirdParty, Readers: kernel.Anything()}), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"the label of nothing", nil, caps("bank.pay"), nil, []kernel.Argument{{Name: "to", Value: val(`"x"`)}, amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"it may flow there", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, mayFlow("bank.pay")), amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"it may flow elsewhere", nil, caps("bank.pay", "x"), nil, []kernel.Argument{arg("to", `"DE89"`, mayFlow("x")), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"it may flow into one of two", func(t *kernel.Tool) { t.RequiredCaps = caps("a", "b") }, caps("a", "b"), nil, []kernel.Argument{arg("to", `"DE89"`, mayFlow("a")), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"one of two arguments may", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, mayFlow("bank.pay")), arg("amount", `1`, tainted())}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"it may flow there, and is third party", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, kernel.Label{Sources: kernel.ToolRead, Subjects: kernel.ThirdParty, Readers: kernel.Anything()}), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"a critical argument never by its readers", critical("to"), caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, mayFlow("bank.pay")), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"also if anything may read it", critical("to"), caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, kernel.Label{Sources: kernel.ToolRead, Readers: kernel.Anything()}), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"another one may", critical("to"), caps("bank.pay"), nil, []kernel.Argument{to, arg("amount", `1`, mayFlow("bank.pay"))}, 0, kernel.Allow, kernel.Permitted, ""},
		{"a rule lets a critical one pass", critical("to"), caps("bank.pay"), []kernel.Rule{rule("r", declassify, "args.to.tainted")}, []kernel.Argument{arg("to", `"DE89"`, mayFlow("bank.pay")), amount}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"it may flow anywhere", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"DE89"`, kernel.Label{Sources: kernel.ToolRead, Readers: kernel.Anything()}), amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"anywhere, and nothing is needed", func(t *kernel.Tool) { t.RequiredCaps, t.Level = nil, kernel.Read }, nil, nil, []kernel.Argument{arg("to", `"x"`, kernel.Label{Sources: kernel.ToolRead, Readers: kernel.Anything()}), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"a read gets back an id of its own service", read, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("cents", `7`, returnedBy("pay"))}, 0, kernel.Allow, kernel.Permitted, ""},
		{"a write does not", nil, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("cents", `7`, returnedBy("pay"))}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"nor a read a text", read, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"x"`, returnedBy("pay")), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"nor an id that a Reader chose", read, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("cents", `7`, readFrom("pay"))}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"nor an id of no tool that is named", read, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("cents", `7`, kernel.Label{Sources: kernel.UserQuery | kernel.ToolRead, Readers: kernel.Only()})}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"nor an id that no tool read", read, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("cents", `7`, kernel.Label{Sources: kernel.UserQuery, Subjects: kernel.ThirdParty, Readers: kernel.Only(), Tools: []string{"pay"}})}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"nor an id of another service", read, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("cents", `7`, returnedBy("inbox"))}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"nor an id of both", read, caps("bank.pay"), nil, []kernel.Argument{to, amount, arg("cents", `7`, returnedBy("inbox", "pay"))}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"what the requester said, where nothing is needed", func(t *kernel.Tool) { t.RequiredCaps, t.Level = nil, kernel.Read }, nil, nil, []kernel.Argument{to, amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"a read that keeps them takes anything", func(t *kernel.Tool) { t.Level, t.NoEgress = kernel.Read, true }, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"x"`, thirdParty()), amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"any other read does not", read, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"a pure tool takes anything", func(t *kernel.Tool) { t.Level = kernel.Pure }, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"x"`, thirdParty()), amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"a join of trusted values", nil, caps("bank.pay"), nil, []kernel.Argument{arg("to", `"x"`, kernel.Join(kernel.Trusted(), kernel.Trusted())), amount}, 0, kernel.Allow, kernel.Permitted, ""},

		// Rules.
		{"a rule lets it pass", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "!args.to.tainted")}, []kernel.Argument{to, arg("amount", `1`, tainted())}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"a rule that allows all protects nothing", nil, caps("bank.pay"), []kernel.Rule{{ID: "all", Effect: declassify, Tool: kernel.AnyTool, When: "true"}}, []kernel.Argument{arg("to", `"evil"`, thirdParty()), arg("amount", `1`, thirdParty())}, 0, kernel.Allow, kernel.Declassified, "all"},
		{"a rule does not", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "!args.to.tainted")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"all rules that do are told", nil, caps("bank.pay"), []kernel.Rule{rule("b", declassify, "true"), rule("no", declassify, "false"), rule("a", declassify, "true")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Allow, kernel.Declassified, "b a"},
		{"nobody asks a rule about what is permitted", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "true"), rule("q", ask, "true")}, []kernel.Argument{to, amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"a person", nil, caps("bank.pay"), []kernel.Rule{rule("q", ask, "args.to.tainted")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.NeedPerson, kernel.NeedsPerson, "q"},
		{"declassify before a person", nil, caps("bank.pay"), []kernel.Rule{rule("q", ask, "true"), rule("r", declassify, "true")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"forbidden", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "args.amount.value > 10")}, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"not forbidden", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "args.amount.value > 12")}, []kernel.Argument{to, amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"a fraction is compared exactly", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "args.amount.value > 98")}, []kernel.Argument{to, arg("amount", `98.000000000001`, clean)}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"forbid is stronger than declassify", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "true"), rule("f", forbid, "true")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"all that forbid are told", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "true"), rule("g", forbid, "false"), rule("h", forbid, "true")}, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.Forbidden, "f h"},
		{"a read can be forbidden", read, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "true")}, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"a pure one as well", func(t *kernel.Tool) { t.Level = kernel.Pure }, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "true")}, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.Forbidden, "f"},

		// What a rule may read, and what becomes of one that fails.
		{"a tainted value is not read: forbid denies", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `args.to.value == "y"`), rule("r", declassify, "true")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"a tainted value is not read: declassify does not apply", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, `args.to.value == "x"`)}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"a tainted value is not read: nobody is asked", nil, caps("bank.pay"), []kernel.Rule{rule("q", ask, `args.to.value == "x"`)}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"unless it is looked at first", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `!args.to.tainted && args.to.value == "x"`), rule("r", declassify, "true")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"a rule that reads data", nil, caps("bank.pay"), []kernel.Rule{readsData(rule("f", forbid, `args.to.value == "y"`)), rule("r", declassify, "true")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"and forbids", nil, caps("bank.pay"), []kernel.Rule{readsData(rule("f", forbid, `args.to.value == "x"`)), rule("r", declassify, "true")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"an ask that reads data", nil, caps("bank.pay"), []kernel.Rule{readsData(rule("q", ask, `args.to.value == "x"`))}, []kernel.Argument{arg("to", `"x"`, tainted()), amount}, 0, kernel.NeedPerson, kernel.NeedsPerson, "q"},
		{"a value of third parties that is not tainted is read", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, `args.to.value == "x"`)}, []kernel.Argument{arg("to", `"x"`, kernel.Label{Sources: kernel.UserQuery, Subjects: kernel.ThirdParty, Readers: kernel.Anything()}), amount}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"division by zero in forbid", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "1 / args.cents.value > 5")}, []kernel.Argument{to, amount, arg("cents", `0`, clean)}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"division by zero in declassify", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "1 / args.cents.value >= 0")}, []kernel.Argument{arg("to", `"x"`, tainted()), amount, arg("cents", `0`, clean)}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"an argument that is absent", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `args.note.value == "x"`)}, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"an absent argument is not tainted", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "args.note.tainted || args.note.third_party || args.note.influence > 0")}, []kernel.Argument{to, amount}, 0, kernel.Allow, kernel.Permitted, ""},
		{"null is nothing to compare", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `args.note.value == "x"`)}, []kernel.Argument{to, amount, arg("note", `null`, clean)}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"into an object", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "args.meta.value.urgent")}, []kernel.Argument{to, amount, arg("meta", `{"urgent":true}`, clean)}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"in a list", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `"b" in args.tags.value`)}, []kernel.Argument{to, amount, arg("tags", `["a","b"]`, clean)}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"a list with one tainted element", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `"b" in args.tags.value`)}, []kernel.Argument{to, amount, arg("tags", `["a"]`, kernel.Join(kernel.Trusted(), tainted()))}, 0, kernel.Deny, kernel.Forbidden, "f"},

		// How much content can have chosen.
		{"few enough bits", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "args.amount.influence <= 8")}, []kernel.Argument{to, arg("amount", `1`, chosen)}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"one too many", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "args.amount.influence <= 7")}, []kernel.Argument{to, arg("amount", `1`, chosen)}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"bits of two origins add up", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "args.amount.influence <= 8")}, []kernel.Argument{to, arg("amount", `1`, tainted(kernel.Influence{Origin: "p.a", Bits: 4}, kernel.Influence{Origin: "p.b", Bits: 5}))}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"unbounded is more than any number", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "args.amount.influence < 9223372036854775807")}, []kernel.Argument{to, arg("amount", `1`, tainted(kernel.Influence{Origin: "p", Bits: kernel.Unbounded}))}, 0, kernel.Deny, kernel.NotDeclassified, ""},
		{"counting with unbounded fails", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "args.amount.influence + 1 > 0")}, []kernel.Argument{to, arg("amount", `1`, tainted(kernel.Influence{Origin: "p", Bits: kernel.Unbounded}))}, 0, kernel.Deny, kernel.NotDeclassified, ""},

		// The requester and the run.
		{"to oneself", nil, caps("bank.pay"), []kernel.Rule{rule("r", declassify, "args.to.value == requester.address")}, []kernel.Argument{arg("to", `"kim@example.com"`, clean), arg("amount", `1`, tainted())}, 0, kernel.Allow, kernel.Declassified, "r"},
		{"by name", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `requester.name != "desk"`)}, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"in a sub-run", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, "run.depth > 0")}, []kernel.Argument{to, amount}, 1, kernel.Deny, kernel.Forbidden, "f"},
		{"with a grant", nil, caps("bank.pay", "mail.send"), []kernel.Rule{rule("f", forbid, `"mail.send" in run.grant`)}, []kernel.Argument{to, amount}, 0, kernel.Deny, kernel.Forbidden, "f"},
		{"without it", nil, caps("bank.pay"), []kernel.Rule{rule("f", forbid, `"mail.send" in run.grant`)}, []kernel.Argument{to, amount}, 0, kernel.Allow, kernel.Permitted, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tool := payTool
			if c.change != nil {
				c.change(&tool)
			}
			k := mustKernel(t, func(d *kernel.Definition) {
				d.Tools, d.Rules, d.UntestedRules = []kernel.Tool{tool, inbox}, c.rules, true
			})
			call := kernel.Call{Tool: "pay", Arguments: c.args, Grant: kernel.NewGrant(c.grant...), Asker: asked, Control: kernel.Trusted(), Depth: c.depth}
			got := k.Gate().Judge(&call)
			failIf(t, got.Ruling != c.want || got.Code != c.code || strings.Join(got.Rules, " ") != c.ids,
				"got %s %s %v, want %s %s [%s]", got.Ruling.Word(), got.Code, got.Rules, c.want.Word(), c.code, c.ids)
		})
	}
}

// A write that third parties had a part in deciding is not permitted by itself, even if nothing
// in it is tainted; a read is.
//
// covers KER-15, KER-48
func TestThirdPartiesDecideNoWrite(t *testing.T) {
	t.Parallel()
	third := kernel.Label{Sources: kernel.UserQuery, Subjects: kernel.ThirdParty, Readers: kernel.Anything()}
	stopIf(t, third.Tainted() || !third.ThirdParty(), "the label is not what the test is about")
	for level, want := range map[kernel.EffectLevel]kernel.Code{kernel.Write: kernel.NotDeclassified, kernel.Read: kernel.Permitted} {
		k := mustKernel(t, func(d *kernel.Definition) {
			tool := payTool
			tool.Level = level
			d.Tools, d.Rules, d.UntestedRules = []kernel.Tool{tool}, nil, true
		})
		call := kernel.Call{Tool: "pay", Arguments: []kernel.Argument{arg("to", `"x"`, kernel.Label{}), arg("amount", `1`, kernel.Label{})}, Grant: kernel.NewGrant("bank.pay"), Asker: asked, Control: third}
		expect(t, k.Gate().Judge(&call).Code, want, "level %v", level)
	}
}

// critical marks an argument of the tool.
func critical(name string) func(*kernel.Tool) {
	return func(t *kernel.Tool) {
		in := *t.Input
		in.Fields = slices.Clone(in.Fields)
		for i := range in.Fields {
			if in.Fields[i].Name == name {
				marked := *in.Fields[i].Type
				marked.Critical = true
				in.Fields[i].Type = &marked
			}
		}
		t.Input = &in
	}
}

// covers KER-12, KER-78
func TestGateZeroDenies(t *testing.T) {
	t.Parallel()
	call := kernel.Call{Tool: "send_email", Grant: kernel.NewGrant("mail.send"), Control: kernel.Trusted(), Arguments: []kernel.Argument{arg("to", `"x"`, kernel.Trusted()), arg("body", `"x"`, kernel.Trusted())}}
	var none kernel.Gate
	expect(t, none.Judge(&call).Ruling, kernel.Deny, "the zero gate says")
	gate := mustKernel(t, nil).Gate()
	expect(t, gate.Judge(&kernel.Call{}).Ruling, kernel.Deny, "the zero call")
	v := (kernel.Verdict{})
	failIf(t, v.Ruling != kernel.Deny || v.Ruling.Word() != "deny", "the zero verdict allows")
	expect(t, gate.Judge(&call).Ruling, kernel.Allow, "a right call")
}

func sameVerdict(a, b kernel.Verdict) bool {
	return a.Ruling == b.Ruling && a.Code == b.Code && slices.Equal(a.Rules, b.Rules)
}

// drawCall draws a mail that somebody may or may not be sent.
func drawCall(t *rapid.T) kernel.Call {
	c := kernel.Call{Tool: rapid.SampledFrom([]string{"send_email", "create_event", "read_inbox", "nothing"}).Draw(t, "tool"), Asker: asked, Control: kernel.Trusted()}
	c.Grant = kernel.NewGrant(rapid.SliceOfN(rapid.SampledFrom(caps("mail.send", "mail.send", "calendar.write", "mail.read")), 0, 3).Draw(t, "grant")...)
	for _, name := range []string{"to", "body"} {
		l := kernel.Trusted()
		if rapid.IntRange(0, 2).Draw(t, "from content") > 0 {
			l = mustLabel(t, drawModel(t).json())
		}
		c.Arguments = append(c.Arguments, kernel.Argument{Name: name, Value: val(rapid.SampledFrom([]string{`"kim@example.com"`, `"kim@example.com"`, `"evil@example.com"`, `1`}).Draw(t, name)), Label: l})
	}
	return c
}

// Whatever labels and values: nothing tainted or of third parties reaches a write
// but by its readers or by a rule that holds, and never past a forbid rule.
// covers KER-1, KER-4, KER-6, KER-15, KER-48, KER-105
func TestGateAgainstItsDefinition(t *testing.T) {
	t.Parallel()
	gate := mustKernel(t, func(d *kernel.Definition) {
		d.Rules = append(d.Rules, kernel.Rule{ID: "never", Effect: kernel.Forbid, Tool: "send_email", When: "args.body.influence > 5"})
		d.UntestedRules = true
	}).Gate()
	allowed := 0
	check := func(t *rapid.T) {
		c := drawCall(t)
		c.Tool = "send_email"
		got := gate.Judge(&c)
		to, body := c.Arguments[0], c.Arguments[1]
		needed, mayFlow, third := false, true, false
		for _, a := range c.Arguments {
			needed = needed || a.Label.Tainted() || a.Label.ThirdParty()
			third = third || a.Label.ThirdParty()
			mayFlow = mayFlow && (!a.Label.Tainted() || a.Label.Readers.Admit(caps("mail.send")))
		}
		text := func(v *kernel.Value) bool { return v.Kind() == kernel.TextValue }
		self := !body.Label.ThirdParty() && !to.Label.Tainted() && string(to.Value.JSON()) == `"kim@example.com"`
		want := kernel.Verdict{Code: kernel.NotDeclassified}
		switch {
		case !c.Grant.Holds("mail.send"):
			want = kernel.Verdict{Code: kernel.NoCapability}
		case !text(to.Value) || !text(body.Value):
			want = kernel.Verdict{Code: kernel.BadArguments}
		case body.Label.Width() > 5:
			want = kernel.Verdict{Code: kernel.Forbidden, Rules: []string{"never"}}
		case !needed, mayFlow && !third:
			want = kernel.Verdict{Ruling: kernel.Allow, Code: kernel.Permitted}
		case self:
			want = kernel.Verdict{Ruling: kernel.Allow, Code: kernel.Declassified, Rules: []string{"mail-to-self"}}
		}
		if !sameVerdict(got, want) {
			t.Fatalf("to %s (%s), body %s (%s): got %+v, want %+v", to.Value.JSON(), spelled(to.Label), body.Value.JSON(), spelled(body.Label), got, want)
		}
		if got.Ruling == kernel.Allow {
			allowed++
		}
	}
	for range 20 { // of few draws, all may be refused
		if rapid.Check(t, check); allowed > 0 {
			break
		}
	}
	failIf(t, allowed == 0, "no call was allowed: the check shows nothing")
}

// A grant of a sub-run is never more than that of the run around it.
// covers KER-34, KER-50, KER-52, KER-94
func TestGrantsShrink(t *testing.T) {
	t.Parallel()
	names := rapid.SliceOf(rapid.SampledFrom(caps("a", "b", "c", "a.b", "*", "A", "", "a ")))
	rapid.Check(t, func(t *rapid.T) {
		outer, asked := kernel.NewGrant(names.Draw(t, "held")...), names.Draw(t, "asked")
		inner := outer.Clamp(asked)
		for _, c := range inner.Capabilities() {
			stopIf(t, !outer.Holds(c) || !slices.Contains(asked, c), "%q is in the sub-grant", c)
		}
		for _, c := range asked {
			stopIf(t, outer.Holds(c) && !inner.Holds(c), "%q is missing", c)
			stopIf(t, !c.Valid() && outer.Holds(c), "%q is held", c)
		}
		again := inner.Clamp(outer.Capabilities())
		stopIf(t, !slices.Equal(again.Capabilities(), inner.Capabilities()), "a sub-run's sub-run widened")
	})
}

func TestCapabilityNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[kernel.Capability]bool{
		"a": true, "0": true, "mail.send": true, "a-b_c.d": true, kernel.Capability(strings.Repeat("a", 63)): true, kernel.Capability(strings.Repeat("a", 64)): false,
		"": false, "A": false, ".a": false, "-a": false, "_a": false, "a b": false, "*": false, "a.*": false, ">": false, "é": false, "a\n": false, "a/b": false,
	} {
		expect(t, name.Valid(), want, "%q: %t", name, !want)
	}
	g := kernel.NewGrant("b", "a", "b", "*")
	failIf(t, fmt.Sprint(g.Capabilities()) != "[a b]", "got %v", g.Capabilities())
}
