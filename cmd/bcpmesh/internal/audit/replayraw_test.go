package audit

import (
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A raw message that was not kept whole says how much of it is there.
func TestRawLinesOfALongMessage(t *testing.T) {
	t.Parallel()
	long := replayed{Decision: bcp.Decision{Role: bcp.RoleReader, Agent: "mailer"}, Raw: &rawMessage{Base64: []byte("ab"), Bytes: 70_000}}
	if told := long.rawLines(); !strings.Contains(told, "verbatim, 70000 bytes, the first 2 bytes: HOSTILE TEXT of mailer\n            │ ab\n") {
		t.Errorf("a long one:\n%s", told)
	}
}
