package bcp_test

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Each message about an endorsement that is not quite one is malformed.
//
// covers P7.8, P7.9, P2.2
func TestParseEndorsement(t *testing.T) {
	t.Parallel()
	spec := strings.Repeat("ab", 32)
	answers := `{"endorsement_id":"e1111111111111111111","controller":"main","reader":"mail","subscription_id":"note","spec":"` + spec + `","codes":["url"],"uses":1,"bits":1000000000,"until":"2026-03-15T10:00:00Z","signature":"AA=="}`
	calls := `{"endorsement_id":"e1111111111111111111","kernel":"desk","tool":"send","spec":"` + spec + `","uses":1,"bits":1,"until":"2026-03-15T10:00:00Z","signature":"AA=="}`
	ended := `{"endorsement_id":"e1111111111111111111","controller":"main","reader":"mail"}`
	endedCalls := `{"endorsement_id":"e1111111111111111111","kernel":"desk"}`
	for _, good := range []string{answers, calls} {
		_, code := bcp.ParseEndorsement(bcp.Endorse, []byte(good))
		failIf(t, code != "", "%s: %s", good, code)
	}
	for _, good := range []string{ended, endedCalls} {
		_, code := bcp.ParseEndorsement(bcp.Revoke, []byte(good))
		failIf(t, code != "", "%s: %s", good, code)
	}
	for _, c := range [][3]string{
		{answers, `"uses":1`, `"uses":1,"uses":1`}, {answers, `"uses":1`, `"uses":1,"more":1`}, {answers, `"e1111111111111111111"`, `"e111111111111111111!"`}, {answers, `"e1111111111111111111"`, `"e111111111111111111"`},
		{answers, `"main"`, `"Main"`}, {answers, `"mail"`, `"Mail"`}, {answers, `"note"`, `"no te"`}, {answers, `"reader":"mail",`, ``}, {answers, `"controller":"main",`, ``}, {answers, spec, strings.Repeat("00", 32)},
		{answers, `"uses":1`, `"uses":0`}, {answers, `1000000000`, `0`}, {answers, `1000000000`, `1000000001`}, {answers, `10:00:00Z`, `10:00:00.5Z`}, {answers, `2026`, `1969`}, {answers, `2026-03-15T10:00:00Z`, `9999-12-31T23:59:59-01:00`},
		{answers, `["url"]`, `[]`}, {answers, `["url"]`, `["nonsense"]`}, {answers, `["url"]`, `["url","nonsense"]`}, {answers, `["url"]`, `["secret"]`}, {answers, `["url"]`, `["url","url"]`}, {answers, `"uses":1`, `"tool":"send","uses":1`}, {answers, `"uses":1`, `"kernel":"desk","uses":1`},
		{answers, `"AA=="`, `"` + strings.Repeat("A", bcp.MaxControllerMessage) + `"`},
		{calls, `"desk"`, `"Desk"`}, {calls, `,"tool":"send"`, ``}, {calls, `"send"`, `"send it"`}, {calls, `"uses":1`, `"uses":1,"codes":["url"]`}, {calls, `"uses":1`, `"uses":1,"controller":"main"`}, {calls, `"uses":1`, `"uses":1,"reader":"mail"`},
		{calls, `"uses":1`, `"uses":1,"subscription_id":"note"`}, {calls, `"kernel":"desk",`, ``},
	} {
		text := strings.Replace(c[0], c[1], c[2], 1)
		_, code := bcp.ParseEndorsement(bcp.Endorse, []byte(text))
		failIf(t, code != bcp.Malformed || text == c[0], "%.300s: %q", text, code)
	}
	for _, member := range []string{`"signature":"AA=="`, `"passkey":{}`, `"tool":"send"`, `"uses":1`, `"bits":1`, `"codes":["url"]`, `"spec":"` + spec + `"`, `"until":"2026-03-15T10:00:00Z"`, `"more":1`} {
		for _, good := range []string{ended, endedCalls} {
			_, code := bcp.ParseEndorsement(bcp.Revoke, []byte(strings.Replace(good, "}", ","+member+"}", 1)))
			failIf(t, code != bcp.Malformed, "revoked with %s: %q", member, code)
		}
	}
	for _, c := range []struct {
		anomalies, codes string
		want             bool
	}{
		{"url", "url", true}, {"url", "url code", true}, {"url code", "url", false}, {"", "url", false}, {"secret", "secret", false}, {"nonsense", "nonsense", false}, {"url nonsense", "url", false}, {"url", "url nonsense", false},
	} {
		failIf(t, bcp.EndorsedBy(strings.Fields(c.anomalies), strings.Fields(c.codes)) != c.want,
			"%q by %q: want %v", c.anomalies, c.codes, c.want)
	}
}
