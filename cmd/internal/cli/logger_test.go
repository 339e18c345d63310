package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
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
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter22") || strings.Contains(text, "abc123") || strings.Count(text, "\n") != 2 {
		t.Errorf("the log is\n%s", text)
	}
}

// Every logger of the program is one that redacts.
//
// covers ALF-50
func TestLoggersAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(source, []byte("hclog."+"New(")); n > 0 && !strings.HasSuffix(name, "_test.go") {
			made += n
			if name != "output.go" {
				t.Errorf("%s makes a logger without newLogger", name)
			}
		}
	}
	if made != 1 {
		t.Errorf("%d loggers are made", made)
	}
}
