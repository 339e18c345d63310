package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// covers ALF-50
func TestLogIsRedacted(t *testing.T) {
	t.Parallel()
	const key = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4" // public
	var log bytes.Buffer
	logger := NewLogger(hclog.Info, &log).Named("server")
	logger.Warn("not reached", "url", "nats://bob:hunter22@h.test:4222", "err", errors.New("Authorization: Bearer abc123"), "user", key)
	logger.Info("plain")
	logger.Debug("nats://bob:hunter22@h.test")
	text := log.String()
	for _, want := range []string{"bob:[REDACTED:url-password]@h.test:4222", "Bearer [REDACTED:bearer-token]", key, "[INFO]  bcpmesh.server: plain\n"} {
		failIf(t, !strings.Contains(text, want), "no %s in\n%s", want, text)
	}
	failIf(t, strings.Contains(text, "hunter22") || strings.Contains(text, "abc123") || strings.Count(text, "\n") != 2,
		"the log is\n%s", text)
}
