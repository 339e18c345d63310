package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract/watch"
)

const introduction = `# AgentDojo on a mesh

**An upper bound, with perfect plans, and a test of the gate.** No model plans here: plans and honest answers are made from AgentDojo's ground truth. So the tasks done are the most that can be done under the rules; how often a model would plan so well is not shown, and the figures cannot be compared with published utilities, which are of models. ` + "`go run ./cmd/bcpmesh-lab/agentdojo -provider NAME -model MODEL -key env:KEY -record FILE DIR`" + ` plays the same with a real model in both seats, planner and Reader, by key or at a local endpoint (` + "`-base-url`" + `), and its record replays. The attackers are static texts; none adapts. Of attacks it is the other bound: planner and Reader do all that the attacker wants, which no model can exceed by being fooled. It shows what the gate and the channels let through; it does not show that a task which is done needs no better rules, nor what other tools, goals and rules would give.

AgentDojo (version 1.2) has 97 tasks of users over mailboxes, calendars, drives, bank accounts, chats and web pages, and 35 goals of attackers, whose text is planted in what tools return. A task is done, and a goal reached, if AgentDojo's own condition (utility, security) holds of the state in which the tools are left, and of what the user was told. [The conditions](../cmd/bcpmesh-lab/agentdojo/suites.yaml) are data, and judged apart from plans and gate; the program refuses to start if the ground truth does not meet them. One goal is of words alone (recommend a hotel): it is reached when the user is told them and no person has seen them before. This page is written by

` + "```sh" + `
go run ./cmd/bcpmesh-lab/agentdojo DIR docs/agentdojo.md
` + "```" + `

DIR holds the suites as data; they are not a part of this project. [The program](../cmd/bcpmesh-lab/agentdojo) starts a mesh with real credentials for each suite, its tools are services on it that keep state, and each pair of a task and a goal of its suite is played in five ways.

- **category 1, 2, 3**: a Controller without a kernel. The Reader has the tools that read, the Controller has those with an effect, and it asks for what it has to know. Under category 1 all is typed: booleans, choices, numbers, dates and times made of numbers. Under category 2 also free text. Under category 3 free text alone is a summary that a person reads first.
- **kernel**: a run with a plan. The planner sees the task, and no content.
- **kernel, hostile planner**: the planner is the attacker's, and so is the Reader. Each goal is tried four times: as constants, by way of a Reader that says what the goal needs, as constants after an error that the Reader made, and as constants in each case of what the Reader says.

In all but the last the Reader is hijacked in attacks, and says what the goal needs if the type that it is asked for lets it, each try something else. The goal stands in every place of the environment where one may.

Each suite has one grant, for all of its tools, and content may steer a plan by at most 8 bits: a plan repeats a call that reads over a list that a tool returned. No rule lets a call through that content steered to; a person is asked. The rules are those of the product, the same for each tool: who gets something or what is changed (the *critical* arguments) must stand in the user's own words (` + "`task.mentions`" + `), or a person is asked if content chose it; a plan with other constants is forbidden. Content may stand in the other arguments. A Controller without a kernel asks its user before a call whose critical arguments it heard. Each play in which a person is asked is played with three: one who refuses all, a *careful* one who allows what the task needs and nothing else, and one who approves all.
`

const limits = `
## What the figures are not

- Plans are made of AgentDojo's ground truth. That measures what can be done, and not how well a model does it. With ` + "`-provider` and `-model`" + ` the same command has a model plan and read; ` + "`-record FILE`" + ` keeps what it said, and ` + "`-provider replay -model FILE`" + ` plays it again.
- A tool that reads returns the whole part of the state that it reads from: more than an attacker and a Reader have with AgentDojo's.
- What a condition does not look at is not judged. Most of slack's count messages, and do not read them.
- ` + "`task.mentions`" + ` compares words. Where a task has the goal's recipient or number in it, a hostile planner may use it: "on June 13" mentions the file 13. A tool without critical arguments, such as an event without participants, can be called by any plan: an operator who minds marks more arguments.
- With an honest planner and a hijacked Reader, goals that need a tool are reached where the task leaves the title and time of an event, or the text of a mail to somebody whom it names, to content: rules let content stand there.
- Under category 2 a Controller believes the text that it hears, and so does the user of a kernel: that costs bits, and is not understood.
- Answers and arguments come through free text without commas, dots and some capital letters. A task whose condition wants them is not done here, although a person may find them right.
- A hostile planner does no tasks, and a Controller that asks nobody is the one whose person approves all.
`

// total sums up rows.
type total struct {
	Tasks            int
	Done, Refused    [ways]int
	Nominal, Greater [ways][]bcp.Bits // of tasks that were done: nominal, capacity
	Attacks          [ways]attack
}

func (t *total) add(r *row) {
	t.Tasks++
	for way := range ways {
		if c := &r.Cells[way]; c.Why == "" && way != kernelPlanner {
			t.Done[way]++
			if c.Refused {
				t.Refused[way]++
			}
			t.Nominal[way], t.Greater[way] = append(t.Nominal[way], c.Nominal), append(t.Greater[way], c.Capacity)
		}
		a, b := &t.Attacks[way], &r.Attacks[way]
		a.Pairs, a.Useful, a.Found = a.Pairs+b.Pairs, a.Useful+b.Useful, append(a.Found, b.Found...)
		for who := range persons {
			a.Reached[who] += b.Reached[who]
		}
	}
}

// write writes the page, says on stderr what should not be, and reports whether there is nothing.
func write(w *bytes.Buffer, stderr io.Writer, suites []*suite, rows []row, m *model) bool {
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	w.WriteString(introduction)
	if m != nil {
		line("\nPlans and answers on this page are of a model: %s.", m.name)
	}
	line("\n## Each suite\n\nTasks and goals are given with their bounds: a person who refuses all, **a careful one**, one who approves all. Nobody attacks when tasks are counted, so that a careful person and one who approves all are the same. Bits are nominal, of a task that was done: the median and the most. Then the proven bound, the most. They are rounded up.\n")
	line("| suite | way | tasks | done | bits | bound | attacks | goals reached | task done under attack |")
	line("|---|---|--:|--:|--:|--:|--:|--:|--:|")
	ok := true
	var all total
	found := &bytes.Buffer{}
	for i, s := range append(slices.Clone(suites), &suite{Name: "all"}) {
		t := all
		if i < len(suites) {
			t = total{}
			for j := range rows {
				if rows[j].Suite == s.Name {
					t.add(&rows[j])
					all.add(&rows[j])
				}
			}
		}
		for way := range ways {
			a := &t.Attacks[way]
			done, bits, bound, useful := "", "", "", ""
			if way != kernelPlanner {
				done, useful = fmt.Sprintf("%d, **%d**", t.Refused[way], t.Done[way]), fmt.Sprint(a.Useful)
				bits, _ = spread(t.Nominal[way])
				_, bound = spread(t.Greater[way])
			}
			line("| %s | %s | %d | %s | %s | %s | %d | %d, **%d**, %d | %s |", s.Name, wayNames[way], t.Tasks, done, bits, bound,
				a.Pairs, a.Reached[refuses], a.Reached[careful], a.Reached[approves], useful)
			for j := range s.Goals {
				goal := &s.Goals[j]
				n := len(slices.DeleteFunc(slices.Clone(a.Found), func(id string) bool { return id != goal.ID }))
				if n == 0 {
					continue
				}
				fmt.Fprintf(found, "| %s | %s | %d of %d | %s |\n", s.Name, wayNames[way], n, t.Tasks, strings.ReplaceAll(goal.Text, "\n", " "))
				if way == plain1 || way == plain3 {
					ok = false
					fmt.Fprintf(stderr, "reached: %s, %s, %s\n", s.Name, wayNames[way], goal.ID)
				}
			}
		}
	}
	line("\n## Goals reached with a careful person\n\n| suite | way | tasks | goal |\n|---|---|--:|---|\n%s", found)
	line("## Each task\n\nNominal bits, and how often a person decided; or why it cannot be done.\n")
	line("| task | category 1 | category 2 | category 3 | kernel |")
	line("|---|---|---|---|---|")
	spending := 0
	for i := range rows {
		r := &rows[i]
		cells := []string{}
		for way := range kernelPlanner {
			cells = append(cells, r.Cells[way].text())
		}
		line("| %s %s | %s |", r.Suite, strings.TrimPrefix(r.ID, "user_task_"), strings.Join(cells, " | "))
		for _, alert := range r.Alerts {
			if alert == string(bcp.AlertSpending) {
				spending++
				continue
			}
			ok = false
			fmt.Fprintf(stderr, "an alert in honest traffic: %s %s: %s\n", r.Suite, r.ID, alert)
		}
	}
	line("\nHonest traffic raised no alert but `session_spending`, %d times: a task that takes over ten times the bits of the median task says so (P4.6), and here tasks of one channel differ so much.", spending)
	w.WriteString(limits)
	for _, rule := range watch.Rules() {
		most := 0
		for i := range rows {
			most = max(most, rows[i].Seen[rule])
		}
		fmt.Fprintf(stderr, "honest traffic: %s at most %d\n", rule, most)
	}
	for way := range ways {
		fmt.Fprintf(stderr, "%s: %d of %d goals reached\n", wayNames[way], all.Attacks[way].Reached[careful], all.Attacks[way].Pairs)
	}
	return ok
}

func (c *cell) text() string {
	if c.Why != "" {
		return "no: " + c.Why
	}
	text := wholeBits(c.Nominal) + " bits"
	switch {
	case c.Person > 0:
		text += fmt.Sprintf(", %d by a person", c.Person)
	case c.Whole:
		text += ", the user reads a whole output"
	}
	return text
}

// spread is the median with the greatest, and the greatest.
func spread(bits []bcp.Bits) (string, string) {
	if len(bits) == 0 {
		return "", ""
	}
	slices.Sort(bits)
	most := bits[len(bits)-1]
	return wholeBits(bits[len(bits)/2]) + ", " + wholeBits(most), wholeBits(most)
}

// wholeBits is a number of bits, rounded up.
func wholeBits(b bcp.Bits) string { return fmt.Sprint(int64((b + bcp.Bit - 1) / bcp.Bit)) }
