package bcp

import (
	"slices"
	"strings"
	"testing"
)

func credentialRecord(number uint64) CredentialRecord {
	return CredentialRecord{
		CredentialChange: CredentialChange{Number: number, Time: 1, Role: RoleReader, Limits: []string{"source 10.0.0.0/8"}},
		Act:              CredentialIssued, Agent: "mail", Key: "UABC",
	}
}

func credentialRecords(n int, change func(*CredentialRecord)) []byte {
	var r CredentialRecords
	for i := range n {
		r.Changes = append(r.Changes, credentialRecord(uint64(i)+1))
		change(&r.Changes[i])
	}
	return must(Encode(r, JSON))
}

// What an operator has recorded is what an audit can show, in its order, and no more
// at once than is said.
//
// covers P2.2, P7.5, A-ANSI
func TestCredentialRecordsAreReadStrictly(t *testing.T) {
	t.Parallel()
	same := func(*CredentialRecord) {}
	for name, tt := range map[string]struct {
		body []byte
		good bool
	}{
		"one":               {credentialRecords(1, same), true},
		"as many as go":     {credentialRecords(MaxCredentialRecords, same), true},
		"one more":          {credentialRecords(MaxCredentialRecords+1, same), false},
		"none":              {[]byte(`{"changes":[]}`), true},
		"nothing":           {[]byte(`{}`), true},
		"no bytes":          {nil, false},
		"no JSON":           {[]byte(`{`), false},
		"another member":    {[]byte(strings.Replace(string(credentialRecords(1, same)), `"act"`, `"x":1,"act"`, 1)), false},
		"of the gateway":    {credentialRecords(1, func(c *CredentialRecord) { c.Agent, c.Role = Gateway, 0 }), true},
		"of nobody":         {credentialRecords(1, func(c *CredentialRecord) { c.Agent, c.Role, c.Key = "", 0, "" }), true},
		"no name":           {credentialRecords(1, func(c *CredentialRecord) { c.Agent = "a b" }), false},
		"no act":            {credentialRecords(1, func(c *CredentialRecord) { c.Act = "" }), false},
		"another act":       {credentialRecords(1, func(c *CredentialRecord) { c.Act = "forget" }), false},
		"no number":         {credentialRecords(1, func(c *CredentialRecord) { c.Number = 0 }), false},
		"out of order":      {credentialRecords(2, func(c *CredentialRecord) { c.Number = 3 }), false},
		"no time":           {credentialRecords(1, func(c *CredentialRecord) { c.Time = 0 }), false},
		"before time":       {credentialRecords(1, func(c *CredentialRecord) { c.Until = -1 }), false},
		"no key":            {credentialRecords(1, func(c *CredentialRecord) { c.Key = "U\x1b[2J" }), false},
		"an escape":         {credentialRecords(1, func(c *CredentialRecord) { c.Limits = []string{"\x1b[2J"} }), false},
		"an empty limit":    {credentialRecords(1, func(c *CredentialRecord) { c.Limits = []string{""} }), false},
		"the longest limit": {credentialRecords(1, func(c *CredentialRecord) { c.Limits = []string{strings.Repeat("x", maxCredentialLimit)} }), true},
		"a longer limit":    {credentialRecords(1, func(c *CredentialRecord) { c.Limits = []string{strings.Repeat("x", maxCredentialLimit+1)} }), false},
		"the most limits":   {credentialRecords(1, func(c *CredentialRecord) { c.Limits = slices.Repeat(c.Limits, maxCredentialLimits) }), true},
		"one limit more":    {credentialRecords(1, func(c *CredentialRecord) { c.Limits = slices.Repeat(c.Limits, maxCredentialLimits+1) }), false},
		"too large":         {append(credentialRecords(1, same), strings.Repeat(" ", MaxControllerMessage)...), false},
	} {
		changes, code := ParseCredentialRecords(tt.body)
		failIf(t, (code == "") != tt.good || len(changes) > 0 && !tt.good, "%s: %d, %q", name, len(changes), code)
	}
}

// However many changes wait, and however large they are, bodies take all of them in
// their order, and each is read.
//
// covers P7.5
func TestCredentialRecordsGoIntoBodies(t *testing.T) {
	t.Parallel()
	for _, lines := range []int{0, 1, maxCredentialLimits} {
		for _, n := range []int{0, 1, MaxCredentialRecords, MaxCredentialRecords + 1, 1000} {
			var waiting []CredentialRecord
			for i := range n {
				c := credentialRecord(uint64(i) + 1)
				c.Limits = slices.Repeat([]string{strings.Repeat("x", maxCredentialLimit)}, lines)
				waiting = append(waiting, c)
			}
			next := uint64(1)
			for len(waiting) > 0 {
				body, some := CredentialRecordsOf(waiting)
				text := must(Encode(body, JSON))
				changes, code := ParseCredentialRecords(text)
				stopIf(t, code != "" || len(changes) != some || some == 0 || changes[0].Number != next,
					"%d lines, %d changes: %d of them, %q", lines, n, some, code)
				next += uint64(some)
				waiting = waiting[some:]
			}
		}
	}
}
