package bcp

import (
	"testing"
)

// Every alert is told somewhere, and no alert nowhere.
//
// covers P4.6
func TestSeverities(t *testing.T) {
	t.Parallel()
	for _, kind := range append(AlertKinds(), AlertJournal, AlertDamaged, "of another version") {
		failIf(t, kind.Severity() == 0 || kind.Topic() == "",
			"%s has severity %s and topic %s", kind, kind.Severity(), kind.Topic())
	}
	failIf(t, AlertKind("").Severity() != 0 || Severity(0).String() != "invalid", "what is no alert is told")
	failIf(t, AlertHeld.Topic() != TopicHeld || AlertExpiring.Topic() != TopicCredentials || AlertJournal.Severity() != SeverityCritical,
		"topics or severities are others")
}
