package cli

import (
	"io"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// NewLogger returns the logger of a command, in whose entries secrets are hidden: an error may quote a URL with a password.
// Hashes and public keys stay.
func NewLogger(level hclog.Level, to io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "bcpmesh", Level: level, Output: redactedLog{to}})
}

// redactedLog redacts each entry of a log. hclog writes one with one call.
type redactedLog struct{ to io.Writer }

// Write implements [io.Writer].
func (l redactedLog) Write(entry []byte) (int, error) {
	if guard.HasSecret(entry) {
		if _, err := io.WriteString(l.to, guard.Redact(string(entry), guard.Keys)); err != nil {
			return 0, err
		}
		return len(entry), nil
	}
	return l.to.Write(entry)
}
