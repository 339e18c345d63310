package definition_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// mark stands in front of the place that an error must name.
const mark = "«"

// What the inputs below are put into.
const (
	inMesh    = ""
	inAgent   = "---\nname: a\n"
	inChannel = "---\nname: a\nbcp_channels:\n- peer: r\n  role: controller\n  max_category: 2\n  budget_bits: 1000\n"
	inReader  = "---\nname: a\nbcp_channels:\n- peer: c\n  role: reader\n"
	inSub     = inChannel + "  subscriptions:\n  - id: s\n"
	inField   = inSub + "    category: 1\n    fields:\n    - name: f\n"
	inAsk     = inSub + "    category: 2\n    questions:\n    - id: q\n      question: What?\n"
)

// others are the agents that the input may name.
var others = files(
	"agents/r.md", "---\nname: r\nbcp_channels: [{peer: a, role: reader}]\n---\n",
	"agents/c.md", "---\nname: c\nbcp_channels: [{peer: a, role: controller, max_category: 2, budget_bits: 10}]\n---\n",
)

// Every wrong input gives one error with the exact place, code and key, and
// says what was expected.
//
// covers P1.2, P1.3, P1.4, SUB-21, SUB-22, SUB-23, SUB-24, SUB-25, SUB-26, SUB-28, SUB-29, SUB-30, SUB-31, SUB-32, SUB-33
// covers SUB-34, SUB-35, SUB-36, SUB-39, SUB-41, C-27, BCP-1
func TestBadInputs(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, text, code, key, want string }{
		// YAML.
		{inMesh, "«- a\n", definition.CodeWrongType, "", "keys and values"},
		{inMesh, "«text\n", definition.CodeWrongType, "", "got text"},
		{inMesh, "name: «[a\n", definition.CodeSyntax, "", "a list that begins with [ is not closed"},
		{inMesh, "name: «[a\nreplicas: 1\n", definition.CodeSyntax, "", "comma or ]"},
		{inMesh, "name: «{a: 1\n", definition.CodeSyntax, "", "comma or }"},
		{inMesh, "name: «]\n", definition.CodeSyntax, "", "without its beginning"},
		{inMesh, "name: «\"a\n", definition.CodeSyntax, "", "text in quotes is not closed"},
		{inMesh, "name: «'a\n", definition.CodeSyntax, "", "text in quotes is not closed"},
		{inMesh, "name: «\"\\q\"\n", definition.CodeSyntax, "", "no such escape"},
		{inMesh, "name: a\n«foo\n", definition.CodeSyntax, "", "with a colon"},
		{inMesh, "approvers:\n  - a\n «- b\n", definition.CodeSyntax, "", "indented as the keys above"},
		{inMesh, "name: «@a\n", definition.CodeSyntax, "", "put it in quotes"},
		{inMesh, "name: a«: b\n", definition.CodeSyntax, "", "a second colon in one line"},
		{inMesh, "name: «&x a\n", definition.CodeForbiddenYAML, "name", "anchors"},
		{inMesh, "name: «*x\n", definition.CodeForbiddenYAML, "", "aliases"},
		{inMesh, "name: «!!str a\n", definition.CodeForbiddenYAML, "name", "tags"},
		{inMesh, "«<<: {name: a}\n", definition.CodeForbiddenYAML, "<<", "merge"},
		{inMesh, "«? name\n: a\n", definition.CodeForbiddenYAML, "name", "begin with ?"},
		{inMesh, "name: a\n«---\nname: b\n", definition.CodeForbiddenYAML, "", "one YAML document"},
		{inMesh, "name: a\n«...\n", definition.CodeForbiddenYAML, "", "one YAML document"},
		{inMesh, "«%YAML 1.2\n---\nname: a\n", definition.CodeForbiddenYAML, "", "directives"},
		{inMesh, "name: a\n«name: b\n", definition.CodeDuplicateKey, "name", "line 1"},
		{inMesh, "name:«\nreplicas: 1\n", definition.CodeNull, "name", "default"},
		{inMesh, "name: «null\n", definition.CodeNull, "name", "expected a value"},
		{inMesh, "name: «~\n", definition.CodeNull, "name", "expected a value"},
		{inMesh, "«1: a\n", definition.CodeWrongType, "1", "text"},
		{inMesh, "«true: a\n", definition.CodeWrongType, "true", "text"},
		{inMesh, "approvers: [a1, «null]\n", definition.CodeNull, "approvers[1]", "expected a value"},
		{inMesh, "name: «\"a\\0b\"\n", definition.CodeEncoding, "name", "control"},
		{inMesh, "approvers: [[[[[[[[[[[«[a]]]]]]]]]]]]\n", definition.CodeTooDeep, "approvers" + strings.Repeat("[0]", 11), "12 levels"},
		{inMesh, "approvers: " + strings.Repeat("[", 10_000) + "«" + strings.Repeat("[", 10) + "\n", definition.CodeTooDeep, "", "12 levels"},
		{inMesh, "approvers:\n- - - - - - - - - - - «- a\n", definition.CodeTooDeep, "approvers" + strings.Repeat("[0]", 11), "12 levels"},
		{inMesh, "«\ufeffname: a\n", definition.CodeEncoding, "", "byte order mark"},
		{inMesh, "name: a\n# \u00e9«\xff\n", definition.CodeEncoding, "", "UTF-8"},

		// Notification routes.
		{inMesh, "notify:\n- «name: a\n", definition.CodeMissingKey, "notify[0]", "one of webhook, mail_server, command"},
		{inMesh, "notify:\n- «name: a\n  webhook: env:A\n  command: [x]\n", definition.CodeMissingKey, "notify[0]", "got 2 of them"},
		{inMesh, "notify:\n- {name: a, webhook: «https://hooks.example.org/T0KEN}\n", definition.CodeBadValue, "notify[0].webhook", "env:NAME or file:PATH"},
		{inMesh, "notify:\n- {name: a, command: [x], format: «slack}\n", definition.CodeMissingKey, "notify[0].format", "it goes with webhook"},
		{inMesh, "notify:\n- name: a\n  mail_server: «a:25\n  mail_from: a@b\n", definition.CodeMissingKey, "notify[0].mail_server", "it goes with mail_to"},
		{inMesh, "notify:\n- name: a\n  mail_server: a:25\n  mail_from: a@b\n  mail_to: [a@b]\n  mail_user: «u\n", definition.CodeMissingKey, "notify[0].mail_user", "it goes with mail_password"},
		{inMesh, "notify:\n- {name: a, mail_server: a:25, mail_from: a@b, mail_to: [a@b, «\"a@b\\nBcc: c@d\"]}\n", definition.CodeBadValue, "notify[0].mail_to[1]", "a mail address"},
		{inMesh, "notify:\n- {name: a, command: [x], for: [held, «holds]}\n", definition.CodeUnknownWord, "notify[0].for[1]", "held, alerts, credentials"},
		{inMesh, "notify:\n- {name: a, command: [x], severity: «urgent}\n", definition.CodeUnknownWord, "notify[0].severity", "info, warning, critical"},
		{inMesh, "notify:\n- {name: a, command: [x], person: «eve}\n", definition.CodeUnknownPerson, "notify[0].person", "neither an approver nor an auditor"},
		{inMesh, "endorse:\n- «controller: main\n  reader: nobody\n  people: [operator]\n  max_uses: 1\n  max_time: 1h\n  max_bits: 1\n", definition.CodeNoCounterpart, "endorse[0]", "there is no channel"},
		{inMesh, "endorse:\n- «kernel: desk\n  tools: [send]\n  people: [operator]\n  max_uses: 1\n  max_time: 1h\n  max_bits: 1\n", definition.CodeNoCounterpart, "endorse[0]", "there is no kernel"},
		{inMesh, "endorse:\n- kernel: «desk\n  people: [operator]\n  max_uses: 1\n  max_time: 1h\n  max_bits: 1\n", definition.CodeMissingKey, "endorse[0].kernel", "it goes with tools"},
		{inMesh, "endorse:\n- «tools: [send]\n  people: [operator]\n  max_uses: 1\n  max_time: 1h\n  max_bits: 1\n", definition.CodeMissingKey, "endorse[0]", "one of controller, kernel"},
		{inMesh, "endorse:\n- «controller: main\n  kernel: desk\n  tools: [send]\n  people: [operator]\n  max_uses: 1\n  max_time: 1h\n  max_bits: 1\n", definition.CodeMissingKey, "endorse[0]", "one of controller, kernel"},
		{inMesh, "endorse:\n- controller: «main\n  people: [operator]\n  max_uses: 1\n  max_time: 1h\n  max_bits: 1\n", definition.CodeMissingKey, "endorse[0].controller", "it goes with reader"},
		{inMesh, "notify:\n- {name: a, command: [x]}\n- {name: «a, command: [x]}\n", definition.CodeDuplicate, "notify[1].name", "the same name"},

		{inMesh, "name:«\ta\n", definition.CodeForbiddenYAML, "", "tabs"},
		{inMesh, "name: a«\x01b\n", definition.CodeEncoding, "", "control"},
		{inMesh, "vocabularies: «{x:[a]}\n", definition.CodeSyntax, "", "comma or }"},
		{inMesh, "vocabularies:\n  x:\n  -«\n  y: [b]\n", definition.CodeNull, "vocabularies.x[0]", "expected a value"},
		{inMesh, "«!", definition.CodeForbiddenYAML, "", "tags"},

		// Keys.
		{inMesh, "«nme: a\n", definition.CodeUnknownKey, "nme", `did you mean "name"`},
		{inMesh, "«Name: a\n", definition.CodeUnknownKey, "Name", `did you mean "name"`},
		{inMesh, "«idle-timeout: 1m\n", definition.CodeUnknownKey, "idle-timeout", `did you mean "idle_timeout"`},
		{inMesh, "«max_retries: 1\n", definition.CodeUnknownKey, "max_retries", "a key of a channel entry"},
		{inMesh, "«whatever: 1\n", definition.CodeUnknownKey, "whatever", "expected one of name, time_zone"},
		{inAgent, "«tool: Read\n", definition.CodeUnknownKey, "tool", `did you mean "tools"`},
		{inAgent, "bcp_channels:\n- «peer: r\n  role: controller\n  max_category: 1\n", definition.CodeMissingKey, "bcp_channels[0].budget_bits", "number of bits"},
		{inAgent, "bcp_channels:\n- «role: controller\n  max_category: 1\n  budget_bits: 1\n", definition.CodeMissingKey, "bcp_channels[0].peer", "name"},
		{inAgent, "bcp_channels:\n- «peer: r\n  max_category: 1\n  budget_bits: 1\n", definition.CodeMissingKey, "bcp_channels[0].role", "one of controller, reader"},
		{inAgent, "bcp_channels:\n- «peer: r\n  role: controller\n  budget_bits: 1\n", definition.CodeMissingKey, "bcp_channels[0].max_category", "1 to 3"},
		{"---\n", "«model: m\n", definition.CodeMissingKey, "name", "name"},
		{inSub, "    category: 1\n    fields: [{name: a, type: boolean}]\n    max_rate: «1/w\n", definition.CodeBadValue, "bcp_channels[0].subscriptions[0].max_rate", "expected a rate of 1 to 1000 in a second, minute, hour or day"},
		{inSub, "    category: 1\n    fields: [{name: a, type: boolean}]\n    publish_when: «b\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].publish_when", "the answers are a"},
		{inSub, "    category: 1\n    fields: [{name: a, type: boolean}]\n    publish_when: «a + 1\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].publish_when", "no matching overload"},

		// Types, ranges and forms.
		{inMesh, "name: «[a]\n", definition.CodeWrongType, "name", "got a list"},
		{inMesh, "name: «7\n", definition.CodeWrongType, "name", "put it in quotes"},
		{inMesh, "name: «Office\n", definition.CodeBadValue, "name", "a-z"},
		{inMesh, "name: «gateway\n", definition.CodeBadValue, "name", "not \"gateway\""},
		{inMesh, "replicas: «2\n", definition.CodeOutOfRange, "replicas", "1, 3 or 5"},
		{inMesh, "idle_timeout: «30d1s\n", definition.CodeOutOfRange, "idle_timeout", "from 1s to 30d"},
		{inMesh, "sync: «allways\n", definition.CodeBadValue, "sync", `did you mean "always"`},
		{inMesh, "approvers: [ann, «ann]\n", definition.CodeDuplicate, "approvers[1]", "twice"},
		{inMesh, "approvers: [«a]\n", definition.CodePersonIsAgent, "approvers[0]", "is an agent"},
		{inMesh, "auditors: [«r]\n", definition.CodePersonIsAgent, "auditors[0]", "is an agent"},
		{inMesh, "vocabularies: {x: [pay, «рау]}\n", definition.CodeDuplicate, "vocabularies.x[1]", "same"},
		{inMesh, "vocabularies: {x: [vai, «ναι]}\n", definition.CodeDuplicate, "vocabularies.x[1]", "looks the same"},
		{inMesh, "vocabularies: {x: [a, «a b]}\n", definition.CodeBadValue, "vocabularies.x[1]", "one word"},
		{inMesh, "vocabularies: {x: [a, «A]}\n", definition.CodeDuplicate, "vocabularies.x[1]", "number 1"},
		{inAgent, "encoding: «JSON\n", definition.CodeUnknownWord, "encoding", `did you mean "json"`},
		{inMesh, "replicas: 3\nrequire_witness: «24h\n", definition.CodeWitness, "require_witness", "one process"},
		{inAgent, "total_budget_bits: «nothing\n", definition.CodeWrongType, "total_budget_bits", "or none"},
		{inAgent, "tools: «Read, , Write\n", definition.CodeBadValue, "tools", "tool's name"},
		{inAgent, "command: «python3 reader.py\n", definition.CodeWrongType, "command", "a list of 1 to 256 texts"},
		{inAgent, "command: «[./reader]\n", definition.CodeCommandUser, "command", "`sandbox: none`"},
		{inAgent, "command: [./reader]\nsandbox: required\nfiles: «[lib, a/../..]\n", definition.CodeSandbox, "files", "a/../.."},
		{inAgent, "command: [./reader]\nsandbox: required\nfiles: «[/srv/.bcpmesh/run]\n", definition.CodeSandbox, "files", "keys"},
		{inAgent, "cron_schedules: [«{schedule: 0 * * * *}]\n", definition.CodeMissingKey, "cron_schedules[0].message", "text"},
		{inAgent, "cron_schedules: [{schedule: «\"0 * * *\", message: m}]\n", definition.CodeBadValue, "cron_schedules[0].schedule", "4 fields"},
		{inAgent, "cron_schedules: [{schedule: «\"0 0 * * * *\", message: m}]\n", definition.CodeBadValue, "cron_schedules[0].schedule", "6 fields"},
		{inAgent, "cron_schedules: [{schedule: «\"60 * * * *\", message: m}]\n", definition.CodeBadValue, "cron_schedules[0].schedule", "out of range"},
		{inAgent, "cron_schedules: [{schedule: «\"0 0 30 2 *\", message: m}]\n", definition.CodeBadValue, "cron_schedules[0].schedule", "never comes"},
		{inAgent, "network: [a.test]\nstart_urls: [«https://b.test/]\n", definition.CodeBadValue, "start_urls[0]", "within network"},
		{inAgent, "network: [a.test]\nstart_urls: [«http://a.test:8080/]\n", definition.CodeBadValue, "start_urls[0]", "port"},
		{inAgent, "network: [a.test]\nstart_urls: [«'https://u:p@a.test/']\n", definition.CodeBadValue, "start_urls[0]", "password"},
		{inAgent, "network: [a.test]\nstart_urls: [https://a.test, «https://a.test/]\n", definition.CodeDuplicate, "start_urls[1]", "listed twice"},
		{inAgent, "start_urls: [«https://a.test/]\n", definition.CodeBadValue, "start_urls[0]", "no hosts"},
		{inAgent, "network: outbound\nstart_urls: [«https://a.test/]\n", definition.CodeBadValue, "start_urls[0]", "no hosts"},

		// Channels.
		{inAgent, "bcp_channels:\n- peer: r\n  role: «Reader\n", definition.CodeUnknownWord, "bcp_channels[0].role", `did you mean "reader"`},
		{inAgent, "bcp_channels:\n- peer: «a\n  role: reader\n", definition.CodeSelfChannel, "bcp_channels[0].peer", "to itself"},
		{inReader, "- peer: «c\n  role: reader\n", definition.CodeDuplicate, "bcp_channels[1].peer", "line 4"},
		{inReader, "  «query_ttl: 1m\n", definition.CodeControllerOnly, "bcp_channels[0].query_ttl", "controller's entry"},
		{inReader, "  «subscriptions: []\n", definition.CodeReaderPushes, "bcp_channels[0].subscriptions", "controller"},
		{inChannel, "  justification_vocabulary: «reasons\n", definition.CodeUnknownList, "bcp_channels[0].justification_vocabulary", "word list"},
		{inReader, "  «max_justification_words: 5\n", definition.CodeControllerOnly, "bcp_channels[0].max_justification_words", "controller's entry"},
		{inChannel, "  budget_renew: «never\n", definition.CodeBadValue, "bcp_channels[0].budget_renew", "or none"},
		{inSub, "    category: 1\n    fields: [{name: a, type: boolean}]\n    batch_window: «90s\n  release_interval: 1m\n", definition.CodeReleaseInterval, "bcp_channels[0].subscriptions[0].batch_window", "multiple"},
		{inChannel, "  capacity_budget_bits: «5000\n", definition.CodeReleaseInterval, "bcp_channels[0].capacity_budget_bits", "release_interval"},
		{inChannel, "  approvers: [«ann]\n", definition.CodeUnknownPerson, "bcp_channels[0].approvers[0]", "approvers"},
		{inAgent, "bcp_channels:\n- peer: «x\n  role: controller\n  max_category: 1\n  budget_bits: 1\n  subscriptions: [{id: s, category: 1, fields: [{name: f, type: boolean}]}]\n",
			definition.CodeNoCounterpart, "bcp_channels[0].peer", "no such agent"},
		{inAgent, "bcp_channels:\n- peer: «c\n  role: controller\n  max_category: 1\n  budget_bits: 1\n  subscriptions: [{id: s, category: 1, fields: [{name: f, type: boolean}]}]\n",
			definition.CodeNoCounterpart, "bcp_channels[0].peer", "peer a and role reader"},

		// Subscriptions and their specs.
		{inChannel, "  subscriptions: [«{category: 1, fields: [{name: f, type: boolean}]}]\n", definition.CodeMissingKey, "bcp_channels[0].subscriptions[0].id", "letters"},
		{inChannel, "  subscriptions: [«{id: s, fields: [{name: f, type: boolean}]}]\n", definition.CodeMissingKey, "bcp_channels[0].subscriptions[0].category", "1 to 3"},
		{inChannel, "  subscriptions: [{id: «a_b, category: 1, fields: [{name: f, type: boolean}]}]\n", definition.CodeBadValue, "bcp_channels[0].subscriptions[0].id", "letters, digits and hyphens"},
		{inSub, "    category: 1\n    fields: [{name: f, type: boolean}]\n  - id: «s\n    category: 1\n    fields: [{name: f, type: boolean}]\n", definition.CodeDuplicate, "bcp_channels[0].subscriptions[1].id", "same id"},
		{inSub, "    category: «3\n    directive: d\n    max_words: 1\n", definition.CodeAboveCategory, "bcp_channels[0].subscriptions[0].category", "at most 2"},
		{inField, "      type: integer\n      min: «5\n      max: 1\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].fields[0].min", "greater"},
		{inField, "      «optional: true\n      type: boolean\n", definition.CodeUnknownKey, "bcp_channels[0].subscriptions[0].fields[0].optional", "a field"},
		{inField, "      type: boolean\n      values: «[a]\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].fields[0].values", ""},
		{inAsk, "      max_words: 1\n      expected_format: vocabulary\n      vocabulary: «none\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].questions[0].vocabulary", "word list"},
		{inAsk, "      max_words: 1\n      expected_format: date\n      same_as: «z\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].questions[0].same_as", "another question"},
		{inAsk, "      max_words: 1\n      expected_format: date\n    constraints: [q.month > 1, «p.month > 1]\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].constraints[1]", "1:1"},
		{inSub, "    category: 2\n    fields: «[{name: f, type: boolean}]\n", definition.CodeInvalidSpec, "bcp_channels[0].subscriptions[0].fields", ""},
	}
	for _, tt := range tests {
		text := tt.in + tt.text
		file := "mesh.yaml"
		contents := files("agents/a.md", "---\nname: a\nbcp_channels: [{peer: c, role: reader}, {peer: r, role: controller, max_category: 1, budget_bits: 1}]\n---\n")
		maps.Copy(contents, others)
		if tt.in != inMesh {
			file = "agents/a.md"
			text += "---\nprompt\n"
		}
		before, _, found := strings.Cut(text, mark)
		stopIf(t, !found, "no mark in %q", tt.text)
		line := strings.Count(before, "\n") + 1
		column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
		contents[file] = []byte(strings.Replace(text, mark, "", 1))
		mesh, report := definition.Parse(contents)
		if mesh != nil || len(report.Errors) != 1 {
			t.Errorf("%q: mesh %v, errors %v, want one", tt.text, mesh != nil, report.Errors)
			continue
		}
		got := report.Errors[0]
		failIf(t, got.File != file || got.Line != line || got.Column != column || got.Code != tt.code || got.Key != tt.key || !strings.Contains(got.Message, tt.want),
			"%q: %s (%s), want %s:%d:%d: %s (%s) with %q", tt.text, got, got.Code, file, line, column, tt.key, tt.code, tt.want)
	}
}
