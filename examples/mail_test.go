package examples_test

import (
	"bytes"
	"io/fs"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/examples"
)

// shipped returns the messages, as they are.
func shipped(t *testing.T) (messages [][]byte) {
	t.Helper()
	names, err := fs.Glob(examples.Mail(), "*/*")
	stopIf(t, err != nil || len(names) != 40, "%d messages, %v", len(names), err)
	for _, name := range names {
		raw := must(fs.ReadFile(examples.Mail(), name))(t)
		messages = append(messages, raw)
	}
	return messages
}

var (
	domainInMail  = regexp.MustCompile(`(?:@|https?://)([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)`)
	addressInMail = regexp.MustCompile(`\[([0-9.]+)\]`)
)

// The shipped mail can reach nobody: names and addresses are those reserved for
// documentation.
// covers BCP-18
func TestShippedMailNamesNobody(t *testing.T) {
	t.Parallel()
	var blocks []netip.Prefix
	for _, s := range []string{"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"} {
		blocks = append(blocks, netip.MustParsePrefix(s))
	}
	var texts []string
	for _, raw := range shipped(t) {
		failIf(t, bytes.Contains(raw, []byte("\r")), "carriage return in a message of %d bytes; Maildir wants LF", len(raw))
		m := mailbox.Parse(raw)
		texts = append(texts, string(raw), m.Text, m.Hidden)
		for _, a := range m.Attachments {
			texts = append(texts, a.Text)
		}
	}
	for _, text := range texts {
		for _, found := range domainInMail.FindAllStringSubmatch(text, -1) {
			switch d := strings.ToLower(found[1]); {
			case strings.HasSuffix(d, ".example"), d == "example.com", d == "example.org", d == "example.net",
				strings.HasSuffix(d, ".example.com"), strings.HasSuffix(d, ".example.org"), strings.HasSuffix(d, ".example.net"):
			default:
				t.Errorf("domain %q is not reserved", d)
			}
		}
		for _, found := range addressInMail.FindAllStringSubmatch(text, -1) {
			ip, err := netip.ParseAddr(found[1])
			reserved := false
			for _, b := range blocks {
				reserved = reserved || b.Contains(ip)
			}
			failIf(t, err != nil || !reserved, "address %q is not reserved (%v)", found[1], err)
		}
	}
}

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
