package state_test

import "fmt"

// A day is what happens when nothing goes wrong, and everybody plays. At each of its
// moments anything else may happen.

// turn is an action of a day: the first that is possible and looks like this.
type turn struct {
	kind    actionKind
	gateway int8
	said    messageKind
	n       int8
}

func day() (turns []turn) {
	handled := func(gateway int8, said messageKind, n int8) {
		turns = append(turns, turn{takes, gateway, said, n}, turn{kind: hears, gateway: gateway})
	}
	turns = append(turns, turn{kind: opens}, turn{kind: hears})
	handled(0, ask, 1)
	handled(0, answer, 0)     // which has to be looked at
	handled(0, decideItem, 0) // and is let through
	handled(0, acknowledge, 0)
	handled(0, ask, 0)
	turns = append(turns, turn{kind: passes}, turn{kind: opens, gateway: 1}, turn{kind: hears, gateway: 1})
	handled(1, answer, 0)
	handled(1, push, 0) // for which there is no budget
	turns = append(turns, turn{kind: timePasses})
	handled(1, acknowledge, 0)
	return turns
}

// moments are the beginnings of the day, each as the way to get there.
func moments(c cast) [][]action {
	a := newArchive(revert{}, c)
	w := a.begin()
	all := [][]action{nil}
	var way []action
	for i, turn := range day() {
		happens := false
		for _, act := range a.actions(w) {
			if act.kind != turn.kind || act.n != turn.gateway || act.said.kind != turn.said || act.said.kind != answer && act.said.n != turn.n {
				continue
			}
			var next *world
			if next, happens = a.after(w, act); happens {
				way, w = append(way[:len(way):len(way)], act), next
				break
			}
		}
		if !happens {
			panic(fmt.Sprintf("turn %d of the day cannot be taken", i+1))
		}
		all = append(all, way)
	}
	return all
}
