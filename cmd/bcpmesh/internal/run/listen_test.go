package run

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
)

// Addresses beyond this machine need TLS or the one flag, on each listener.
//
// covers BCP-19
func TestListeningBeyondLoopback(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		l  listening
		ok bool
	}{
		"loopback":               {listening{address: "[::1]:0"}, true},
		"everywhere":             {listening{address: "0.0.0.0:0"}, false},
		"every address":          {listening{address: ":0"}, false},
		"a name":                 {listening{address: "mesh.example:0"}, false},
		"everywhere with TLS":    {listening{address: "0.0.0.0:0", ownTLS: true}, true},
		"everywhere, with files": {listening{address: "0.0.0.0:0", cert: "a", key: "b"}, true},
		"in so many words":       {listening{address: "0.0.0.0:0", plaintext: true}, true},
		"a certificate alone":    {listening{address: "127.0.0.1:0", cert: "a"}, false},
		"both certificates":      {listening{address: "127.0.0.1:0", cert: "a", key: "b", ownTLS: true}, false},
		"TLS and not":            {listening{address: "127.0.0.1:0", ownTLS: true, plaintext: true}, false},
	} {
		if err := tt.l.check(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if open := (listening{address: "0.0.0.0:4222", plaintext: true}); !open.beyond() {
		t.Error("it does not warn")
	}
}

// What keeps a mesh or a gateway from starting is said with what to do.
func TestStartFaults(t *testing.T) {
	t.Parallel()
	clitest.Faults(t, startFaults)
	clitest.Faults(t, gatewayFaults)
}
