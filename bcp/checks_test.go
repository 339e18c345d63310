package bcp

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// Every check has its number, its rule and its word, and some kind of decision
// makes it.
//
// covers P11.1
func TestChecksAreFrozen(t *testing.T) {
	t.Parallel()
	used := map[Check]bool{}
	for _, kind := range DecisionKinds() {
		for _, c := range Checks(kind) {
			used[c] = true
		}
	}
	protocol := must(os.ReadFile("PROTOCOL.md"))
	var words []string
	for i, info := range checks[1:] {
		word, err := info.Check.MarshalText()
		var back Check
		failIf(t, back.UnmarshalText(word) != nil || back != info.Check || int(info.Check) != i+1 || err != nil || string(word) != info.Name || info.Check.String() != info.Name || !used[info.Check],
			"check %d is %+v, %q, %v, used %v", i+1, info, word, err, used[info.Check])
		failIf(t, !strings.Contains(string(protocol), info.Rule), "%s: no rule %s", info.Name, info.Rule)
		words = append(words, info.Name)
	}
	const want = "refusals message channel_first shape repeat channel category spec justified own_words session_failed escalations cat2_queries " +
		"budget push_budget capacity_budget window_budget total_budget reader outbox query answered cancelled deadline no_information answer queue " +
		"subscription controller act item in_time digest approver signature stands approval permission erasure rate filter batch keeper network links egress_budget egress_bytes role model cost_budget token_budget suspended endorse handle"
	got := strings.Join(words, " ")
	failIf(t, got != want, "checks are %s", got)
	for _, c := range []Check{0, Check(len(checks)), 255} {
		if word, err := c.MarshalText(); err == nil || c.UnmarshalText([]byte("other")) == nil || c.String() != "invalid" || c.Info() != (CheckInfo{}) {
			t.Errorf("check %s is written %q", strconv.Itoa(int(c)), word)
		}
	}
}
