package bcp

import (
	"testing"
	"time"
)

// Quiet hours hold from their beginning, exclude their end, may pass midnight, and go by the
// clock of the zone also where it is set.
//
// covers P4.6
func TestQuiet(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	noError(t, err)
	night, noon := Quiet{Begin: 22 * 60, End: 7 * 60}, Quiet{Begin: 12 * 60, End: 13*60 + 30}
	for _, tt := range []struct {
		quiet    Quiet
		at, want string // in Berlin; no want where it is not quiet
	}{
		{night, "2027-01-15T21:59:59", ""},
		{night, "2027-01-15T22:00:00", "2027-01-16T07:00:00"},
		{night, "2027-01-15T23:59:59", "2027-01-16T07:00:00"},
		{night, "2027-01-16T00:00:00", "2027-01-16T07:00:00"},
		{night, "2027-01-16T06:59:59", "2027-01-16T07:00:00"},
		{night, "2027-01-16T07:00:00", ""},
		{night, "2027-03-27T23:00:00", "2027-03-28T07:00:00"}, // an hour less
		{noon, "2027-01-15T11:59:59", ""},
		{noon, "2027-01-15T12:00:00", "2027-01-15T13:30:00"},
		{noon, "2027-01-15T13:30:00", ""},
		{Quiet{}, "2027-01-15T00:00:00", ""},
		{Quiet{Begin: 60, End: 60}, "2027-01-15T01:00:00", ""},
	} {
		at, err := time.ParseInLocation("2006-01-02T15:04:05", tt.at, berlin)
		noError(t, err)
		until, quiet := tt.quiet.Until(at.UTC(), berlin)
		got := ""
		if quiet {
			got = until.Format("2006-01-02T15:04:05")
		}
		if got != tt.want {
			t.Errorf("%v at %s is until %q, not %q", tt.quiet, tt.at, got, tt.want)
		}
	}
}

// Every alert is told somewhere, and no alert nowhere.
//
// covers P4.6
func TestSeverities(t *testing.T) {
	t.Parallel()
	for _, kind := range append(AlertKinds(), AlertJournal, AlertDamaged, "of another version") {
		if kind.Severity() == 0 || kind.Topic() == 0 {
			t.Errorf("%s has severity %s and topic %s", kind, kind.Severity(), kind.Topic())
		}
	}
	if AlertKind("").Severity() != 0 || Severity(0).String() != "invalid" {
		t.Error("what is no alert is told")
	}
	if AlertHeld.Topic() != TopicHeld || AlertExpiring.Topic() != TopicCredentials || AlertJournal.Severity() != SeverityCritical {
		t.Error("topics or severities are others")
	}
}
