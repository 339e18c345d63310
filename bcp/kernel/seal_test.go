package kernel_test

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// What a page says and where it leads nobody reads but a mail and a browser.
var (
	readPage = kernel.Tool{
		Service: "web", Name: "page", Level: kernel.Read, RequiredCaps: caps("look"), Input: mustType(shape()),
		Output: mustType(shape(`link:{"type":"sealed","format":"uri","nullable":true}`, `text:{"type":"sealed","maxLength":20}`, `parts:{"type":"array","items":{"type":"sealed"}}`, "ok:boolean")),
	}
	openLink = kernel.Tool{
		Service: "web", Name: "open", Level: kernel.Write, RequiredCaps: caps("tell"), Idempotency: kernel.ByKey,
		Input: mustType(shape(`url:{"type":"string","format":"uri","accepts":"sealed","hosts":["shop.example.com"]}`)), Output: mustType(`{"type":"boolean"}`),
	}
	mailIt = kernel.Tool{
		Service: "web", Name: "mail", Level: kernel.Write, RequiredCaps: caps("tell"), Idempotency: kernel.ByKey,
		Input: mustType(shape("to:string", `body:{"type":"string","accepts":"sealed"}`, `about:{"type":"string","nullable":true}`)), Output: mustType(`{"type":"boolean"}`),
	}
	weigh = kernel.Tool{
		Service: "web", Name: "weigh", Level: kernel.Pure, Output: mustType(`{"type":"boolean"}`),
		Input: mustType(shape(`all:`+shape("text:string"), `list:{"type":"array","items":{"type":"string"}}`, `word:{"enum":["a","b"]}`, `some:{"type":"array","items":{"type":"string","accepts":"sealed"}}`)),
	}
	linkOf  = kernel.Schema{Name: "Link", Reader: "mailreader", Spec: mustSpec(`{"category":1,"fields":[{"name":"url","type":"sealed","max":200},{"name":"sure","type":"boolean"}]}`)}
	ownMail = kernel.Rule{ID: "own", Effect: kernel.Declassify, Tool: "mail", When: "args.body.sealed && !args.about.tainted && args.to.value == requester.address"}
)

func sealing(t fataler, change func(*kernel.Definition)) *kernel.Kernel {
	return smallKernel(t, func(d *kernel.Definition) {
		d.Tools = append(d.Tools, readPage, openLink, mailIt, weigh)
		d.Rules = []kernel.Rule{ownMail, {ID: "open", Effect: kernel.Declassify, Tool: "open", When: "args.url.sealed"}}
		d.Schemas, d.Limits.ControlBits = append(d.Schemas, withConstraints(linkOf)), 8
		if change != nil {
			change(d)
		}
	})
}

const page = `{"kind":"tool","id":"page","tool":"page"}`

func mailed(id, body, about string) string {
	return fmt.Sprintf(`{"kind":"tool","id":%q,"tool":"mail","args":{"to":"kim@example.com","body":%s,"about":%s}}`, id, body, about)
}

const readLink = `{"kind":"q_parse","id":"l","source":{"ref":"page"},"schema_ref":"Link","instruction":"i"}`

// A sealed value is passed whole to what takes its kind, and to nothing else: neither a
// plan, nor a call that no plan was checked for, can hand it to anybody who would read it.
// covers KER-32, KER-41
func TestSealedValuesGoWhereTheyAreTaken(t *testing.T) {
	t.Parallel()
	const text, link = `{"ref":"page","path":"text"}`, `{"ref":"page","path":"link"}`
	merge := `{"kind":"merge","id":"m","inputs":{"text":` + text + `}}`
	asks := func(args string) string { return `{"kind":"tool","id":"w","tool":"weigh","args":{` + args + `}}` }
	weighs := func(all, list, word string) string {
		return asks(`"all":` + all + `,"list":` + list + `,"word":` + word + `,"some":[]`)
	}
	const konst, mergeK = `{"kind":"const","id":"k","value":"k"}`, `{"kind":"merge","id":"m","inputs":{"text":{"ref":"k"}}}`
	told := func(d *kernel.Definition) { d.Result = &kernel.Schema{Reader: flags.Reader, Spec: flags.Spec} }
	for name, test := range map[string]struct {
		plan   string
		change func(*kernel.Definition)
		want   kernel.Code
	}{
		"to what takes it":                 {steps(page, mailed("send", text, "null")), nil, ""},
		"to what takes none":               {steps(page, mailed("send", `"b"`, text)), nil, kernel.TypeMismatch},
		"null for null":                    {steps(page, `{"kind":"tool","id":"x","tool":"mail","args":{"to":"a","body":"b","about":`+link+`}}`), nil, kernel.TypeMismatch},
		"of another format":                {steps(page, mailed("send", link, "null")), nil, ""},
		"all of the page":                  {steps(page, mailed("send", `{"ref":"page"}`, "null")), nil, kernel.TypeMismatch},
		"in an object":                     {steps(page, merge, weighs(`{"ref":"m"}`, `[]`, `"a"`)), nil, kernel.TypeMismatch},
		"in a list":                        {steps(page, weighs(`{"ref":"m"}`, `[`+text+`]`, `"a"`)), nil, kernel.UnknownRef},
		"in a list alone":                  {steps(page, `{"kind":"merge","id":"m","inputs":{"text":{"ref":"k"}}}`), nil, kernel.UnknownRef},
		"a list of them":                   {steps(page, `{"kind":"const","id":"k","value":"k"}`, `{"kind":"merge","id":"m","inputs":{"text":{"ref":"k"}}}`, weighs(`{"ref":"m"}`, `{"ref":"page","path":"parts"}`, `"a"`)), nil, kernel.TypeMismatch},
		"a list with one":                  {steps(page, `{"kind":"const","id":"k","value":"k"}`, `{"kind":"merge","id":"m","inputs":{"text":{"ref":"k"}}}`, weighs(`{"ref":"m"}`, `["a",`+text+`]`, `"a"`)), nil, kernel.TypeMismatch},
		"a list to one that takes":         {steps(page, konst, mergeK, asks(`"all":{"ref":"m"},"list":[],"word":"a","some":{"ref":"page","path":"parts"}`)), nil, ""},
		"elements of one that takes":       {steps(page, konst, mergeK, asks(`"all":{"ref":"m"},"list":[],"word":"a","some":["b",`+text+`]`)), nil, ""},
		"a list as an element":             {steps(page, konst, mergeK, asks(`"all":{"ref":"m"},"list":[],"word":"a","some":[{"ref":"page","path":"parts"}]`)), nil, kernel.TypeMismatch},
		"compared with words":              {steps(page, `{"kind":"const","id":"k","value":"k"}`, `{"kind":"merge","id":"m","inputs":{"text":{"ref":"k"}}}`, weighs(`{"ref":"m"}`, `[]`, text)), nil, kernel.TypeMismatch},
		"steered by":                       {steps(page, `{"kind":"when","id":"w","on":`+text+`,"cases":{"a":[]}}`), nil, kernel.TypeMismatch},
		"one of two ways":                  {steps(page, `{"kind":"when","id":"w","on":{"ref":"page","path":"ok"},"cases":{"true":[{"kind":"merge","id":"y","inputs":{"v":`+text+`}}],"false":[{"kind":"const","id":"y","value":"a"}]},"yields":{"y":{"ref":"y"}}}`), nil, kernel.TypeMismatch},
		"each of a list":                   {steps(page, `{"kind":"each","id":"l","over":{"ref":"page","path":"parts"},"as":"e","max":2,"do":[`+mailed("send", `{"ref":"e"}`, "null")+`],"collect":{"e":{"ref":"e"}}}`), func(d *kernel.Definition) { d.Rules[0].ControlBits = 8 }, ""},
		"collected, to what takes none":    {steps(page, `{"kind":"each","id":"l","over":{"ref":"page","path":"parts"},"as":"e","max":2,"do":[],"collect":{"e":{"ref":"e"}}}`, mailed("send", `{"ref":"l","path":"e"}`, "null")), nil, kernel.TypeMismatch},
		"what a Reader is given":           {steps(page, `{"kind":"q_parse","id":"p","source":{"ref":"page"},"schema_ref":"Flags","instruction":"i"}`), nil, ""},
		"what a planner is given":          {steps(page, `{"kind":"subkernel","id":"s","source":`+text+`,"instruction":"i","grant":["look"]}`), nil, kernel.TypeMismatch},
		"in what a planner is given":       {steps(page, merge, `{"kind":"subkernel","id":"s","source":{"ref":"m"},"instruction":"i","grant":["look"]}`), nil, kernel.TypeMismatch},
		"what a Reader says":               {steps(page, readLink, `{"kind":"tool","id":"open","tool":"open","args":{"url":{"ref":"l","path":"url"}}}`), nil, ""},
		"what it says, to what takes none": {steps(page, readLink, mailed("send", `"b"`, `{"ref":"l","path":"url"}`)), nil, kernel.TypeMismatch},
		"steered by what it says":          {steps(page, readLink, `{"kind":"when","id":"w","on":{"ref":"l","path":"url"},"cases":{"a":[]}}`), nil, kernel.TypeMismatch},
		"what a person is told":            {steps(page, merge), nil, ""},
		"what a Controller is told":        {steps(page, merge), told, kernel.TypeMismatch},
		"what it may be told":              {steps(page, `{"kind":"merge","id":"m","inputs":{"ok":{"ref":"page","path":"ok"}}}`), told, ""},
	} {
		k := sealing(t, test.change)
		at := frame(k, "all")
		at.ControlBits = 8
		expect(t, faultOf(k, test.plan, at), test.want, "%s: %s", name, test.plan)
	}
	k := sealing(t, nil)
	inner := frame(k, "all")
	inner.Depth, inner.Path = 1, "s"
	expect(t, faultOf(k, steps(page), inner), kernel.TypeMismatch, "what the plan around a sub-run is told")
	g, _ := k.GrantOf("kim", "all")
	for about, want := range map[bool]kernel.Code{true: kernel.BadArguments, false: kernel.Declassified} {
		call := kernel.Call{Tool: "mail", Grant: g, Asker: asked, Control: kernel.Trusted(), Arguments: []kernel.Argument{
			{Name: "to", Value: val(`"kim@example.com"`), Label: kernel.Trusted()}, {Name: "body", Value: val(`"b"`), Label: tainted(), Sealed: true},
			{Name: "about", Value: val(`"a"`), Label: kernel.Trusted(), Sealed: about},
		}}
		expect(t, k.Gate().Judge(&call).Code, want, "the gate says of a call that no plan was checked for")
	}
}

// What takes a sealed value is an argument that says so, and a URL goes to hosts that are
// named; anything else is refused when it is loaded.
// covers KER-25, KER-41
func TestSealedTypesAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		`{"type":"string","accepts":"all"}`, `{"type":"string","format":"uri","accepts":"sealed"}`, `{"type":"string","hosts":["a.example"]}`, `{"type":"integer","accepts":"sealed"}`,
		`{"type":"string","format":"uri","hosts":[]}`, `{"type":"string","format":"uri","hosts":["A.example"]}`, `{"type":"string","format":"uri","hosts":["a.example/"]}`,
		`{"type":"string","format":"uri","hosts":["a.example:80"]}`, `{"type":"string","format":"uri","hosts":["u@a.example"]}`, `{"type":"string","format":"uri","hosts":["localhost"]}`, `{"type":"sealed","enum":["a"]}`, `{"type":"sealed","accepts":"sealed"}`,
	} {
		typ, err := kernel.ParseType([]byte(bad))
		failIf(t, err == nil, "%s is the type %+v", bad, typ)
	}
	takes := `{"type":"string","accepts":"sealed"}`
	for name, tool := range map[string]kernel.Tool{
		"an argument that is sealed":        {Input: mustType(shape(`a:{"type":"sealed"}`)), Output: mustType(`{"type":"boolean"}`)},
		"a part of one that is sealed":      {Input: mustType(shape(`a:` + shape(`b:{"type":"sealed"}`))), Output: mustType(`{"type":"boolean"}`)},
		"a part of an argument that takes":  {Input: mustType(shape(`a:` + shape(`b:`+takes))), Output: mustType(`{"type":"boolean"}`)},
		"an element of lists that takes":    {Input: mustType(shape(`a:{"type":"array","items":{"type":"array","items":` + takes + `}}`)), Output: mustType(`{"type":"boolean"}`)},
		"what is returned and takes":        {Input: mustType(shape()), Output: mustType(takes)},
		"a part of what is returned, takes": {Input: mustType(shape()), Output: mustType(shape(`a:` + takes))},
	} {
		d := definition()
		tool.Service, tool.Name, tool.Level, tool.RequiredCaps = "s", "new", kernel.Read, caps("look")
		d.Tools = append(d.Tools, tool)
		_, defects := kernel.New(d)
		failIf(t, len(defects) != 1 || defects[0].Code != kernel.BadType, "%s: %v", name, defects)
	}
	url := openLink.Input.Fields[0].Type
	for uri, want := range map[string]bool{
		"https://shop.example.com": true, "https://shop.example.com/a?b=c#d": true, "https://shop.example.com?b": true,
		"http://shop.example.com/": false, "https://shop.example.com.evil.example/": false, "https://shop.example.com@evil.example/": false, "https://shop.example.com:443/": false,
		"https://SHOP.example.com/": false, "https://evil.example/?https://shop.example.com/": false, "https://www.shop.example.com/": false, "https:shop.example.com/": false, "https://shop.example.com\\@evil.example/": false,
	} {
		expect(t, url.Has(val(fmt.Sprintf("%q", uri))), want, "%s", uri)
	}
	again := mustType(string(url.AppendJSONSchema(nil)))
	failIf(t, !bytes.Equal(again.AppendJSONSchema(nil), url.AppendJSONSchema(nil)) || !again.Accepts || len(again.Hosts) != 1,
		"it is spelled in two ways: %s", again.AppendJSONSchema(nil))
}

// No byte of a sealed value is in what a planner, a sub-planner, a requester, or a reader of
// records without their sealed part gets, whatever comes of it: the tool that takes it gets
// it, the Reader that is asked about it, and the person who decides or asked.
// covers KER-40, KER-105
func TestSealedValuesAreNotTold(t *testing.T) {
	t.Parallel()
	const canary = "Canary-7Qx"
	asks := func(d *kernel.Definition) {
		d.Rules = []kernel.Rule{{ID: "ask", Effect: kernel.Ask, Tool: kernel.AnyTool, When: "true"}}
	}
	reads := func(d *kernel.Definition) {
		d.Rules = append(d.Rules, kernel.Rule{ID: "reads", Effect: kernel.Forbid, Tool: "mail", When: `args.body.value == "` + canary + `"`, ReadsData: true})
	}
	result := `{"link":"https://shop.example.com/` + canary + `","text":"` + canary + `","parts":["` + canary + `"],"ok":true}`
	parse := `{"kind":"q_parse","id":"p","source":{"ref":"page","path":"text"},"schema_ref":"Flags","instruction":"i"}`
	open := `{"kind":"tool","id":"open","tool":"open","args":{"url":{"ref":"page","path":"link"}}}`
	openRead := plans(steps(page, readLink, `{"kind":"tool","id":"open","tool":"open","args":{"url":{"ref":"l","path":"url"}}}`), strings.ReplaceAll(result, canary, "other"))
	all := steps(page, mailed("send", `{"ref":"page","path":"text"}`, "null"), open, parse, `{"kind":"merge","id":"m","inputs":{"a":{"ref":"page"}}}`)
	for name, test := range map[string]struct {
		change func(*kernel.Definition)
		play   func(g *gateway)
	}{
		"all of it": {nil, moves(plans(all, result, "true", "true"), answers(`{"u":true,"v":"a"}`), ends(kernel.Committed, ""))},
		"what a Reader says": {nil, func(g *gateway) {
			openRead(g)
			c := g.answer(`{"url":"https://shop.example.com/`+canary+`","sure":true}`, "")
			if label := c.Steps[0].Label; label.Width() != kernel.Unbounded {
				g.t.Fatalf("content chose %s bits of it", label.Width())
			}
			g.result("true")
			g.end(kernel.Committed, "")
		}},
		"what a Reader says of elsewhere": {nil, moves(openRead, answers(`{"url":"https://evil.example.com/`+canary+`","sure":true}`), tells(kernel.BadArguments))},
		"a person": {asks, func(g *gateway) {
			g.plan(all, result)
			item := g.state.Items()[0]
			stopIf(g.t, !bytes.Contains(item.Content, []byte(canary)) || !item.Effect.Arguments[1].Sealed || item.Effect.Arguments[0].Sealed,
				"a person is shown %s %+v", item.Content, item.Effect.Arguments)
			g.person(kernel.Approve, "")
			g.result("true")
			g.person(kernel.Reject, "")
		}},
		"a rule that would read it":   {reads, moves(plans(all), ends(kernel.Blocked, kernel.Forbidden))},
		"one that does not fit":       {nil, plans(all, strings.Replace(result, canary+`","parts`, strings.Repeat(canary, 20)+`","parts`, 1))},
		"a host that nobody named":    {nil, moves(plans(steps(page, open), strings.Replace(result, "shop", "evil", 1)), tells(kernel.BadArguments))},
		"nothing there":               {nil, moves(plans(steps(page, open), strings.Replace(result, `"https://shop.example.com/`+canary+`"`, "null", 1)), tells(kernel.BadArguments))},
		"a sink that fails":           {nil, moves(plans(all, result), outcomes(`"error":"`+canary+`","not_performed":true`))},
		"a Reader that does not know": {nil, moves(plans(steps(page, parse), result), unanswered(bcp.NotEnoughInformation))},
	} {
		g := begun(t, sealing(t, test.change))
		test.play(g)
		for _, r := range g.sent {
			switch r.Kind {
			case kernel.ReleaseCall:
				taken := r.Tool.Name == "mail" || r.Tool.Name == "open"
				failIf(t, bytes.Contains(r.Body, []byte(canary)) != (taken), "%s: %s got %s", name, r.Tool.Name, r.Body)
			case kernel.ReleaseParse: // a Reader
			case kernel.ReleaseOutcome:
				failIf(t, strings.Contains(fmt.Sprintf("%+v", r.End), canary), "%s: the requester is told %+v", name, r.End)
			default:
				failIf(t, bytes.Contains(r.Body, []byte(canary)) || bytes.Contains(r.Content, []byte(canary)),
					"%s: %s got %s", name, r.Agent, r.Body)
			}
		}
		for _, c := range g.changes {
			open := c.AppendJSON(nil)
			failIf(t, bytes.Contains(open, []byte(canary)), "%s: the open part of a record is %s", name, open)
		}
		for _, r := range g.records {
			failIf(t, bytes.Contains(r[0], []byte(canary)), "%s: %s", name, r[0])
		}
	}
}

//go:embed testdata/records.txt
var recorded []byte

// A kernel without sealed types and control has the records that it had: these bytes were
// recorded before there were any.
func TestRecordsOfOtherKernelsAreAsBefore(t *testing.T) {
	t.Parallel()
	g := planned(t, mustKernel(t, nil), mailPlan, mail)
	g.answer(`{"text":"meeting at 3pm"}`, "")
	g.result(sent)
	g.end(kernel.Committed, "")
	var got []byte
	for _, r := range g.records {
		got = append(append(append(append(got, r[0]...), '\n'), r[1]...), '\n')
	}
	failIf(t, !bytes.Equal(got, recorded), "the records are\n%s", got)
}
