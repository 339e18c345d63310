package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Another version may lay out its files in another way, or use other words.
//
// covers P11.1
func TestVersion(t *testing.T) {
	t.Parallel()
	stopIf(t, natsserver.VERSION != NATSVersion,
		"nats-server is %s, and %s is known. Compare server/filestore.go (recordHead, indexCacheBufLocked, writeMsgRecordLocked), server/jetstream.go (recovery of streams: what it removes and says) and the lines about clients in server/client.go with this package; run the tests of mesh/server and .ci/run faults; then change NATSVersion.", natsserver.VERSION, NATSVersion)
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2/server").Output()
	noError(t, err)
	var source strings.Builder
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "*.go"))
	stopIf(t, err != nil || len(files) == 0, "%d files, %v", len(files), err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b := must(os.ReadFile(name))
		source.Write(b)
	}
	sentences := append([]string{"Error recreating stream ", "could not be recovered", slowConsumer, authFailed, "Publish Violation - Subject ", "Publish Violation - Reply ", subscribeRefused}, quotingFormats...)
	for _, c := range classes[5 : len(classes)-1] { // the last is our own
		sentences = append(sentences, strings.TrimPrefix(c.begins, "Client "))
	}
	for _, format := range unwrittenFormats {
		sentences = append(sentences, strings.Trim(format, "%v"))
	}
	for _, s := range sentences {
		failIf(t, !strings.Contains(strings.ToLower(source.String()), strings.ToLower(s)), "the server has no line with %q", s)
	}
}
