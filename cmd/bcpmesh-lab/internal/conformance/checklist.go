package conformance

import "github.com/bcpmesh/bcpmesh/bcp"

// checklist is what is decided so far about an agent. It belongs to one goroutine.
type checklist struct {
	role    bcp.Role
	checks  map[string]Check // by id
	onCheck func(Check)
}

func newChecklist(role bcp.Role, onCheck func(Check)) checklist {
	return checklist{role: role, checks: map[string]Check{}, onCheck: onCheck}
}

// decide notes a check. The first failure of one stays.
func (l *checklist) decide(id string, result Result, detail string) {
	if before, decided := l.checks[id]; decided && (before.Result == Failed || before.Result == result) {
		return
	}
	for _, rule := range Rules(l.role) {
		if rule.ID == id {
			if result == Passed {
				detail = ""
			}
			l.checks[id] = Check{rule, result, detail}
			l.onCheck(l.checks[id])
		}
	}
}

// check decides a check by a condition.
func (l *checklist) check(id string, ok bool, detail string) {
	if ok {
		l.decide(id, Passed, "")
	} else {
		l.decide(id, Failed, detail)
	}
}

// report returns all checks in order; undecided gives the result of those that
// were not decided.
func (l *checklist) report(arrived bool, undecided func(Rule) Check) Report {
	report := Report{Role: l.role, Arrived: arrived}
	for _, rule := range Rules(l.role) {
		c, decided := l.checks[rule.ID]
		if !decided {
			c = undecided(rule)
		}
		report.Checks = append(report.Checks, c)
	}
	return report
}
