package telemetry

import (
	"errors"
	"net/http"
	"testing"
)

// In the clear, a name that turns out to be another machine is not dialled: what was
// checked is the URL. There is no proxy, whatever the environment says.
//
// covers A-TRACE
func TestDialsThisMachineAloneInTheClear(t *testing.T) {
	t.Parallel()
	transport := func(scheme string) *http.Transport {
		c, err := newCollector(ExportConfig{Endpoint: scheme + "://localhost:4318"})
		noError(t, err)
		return c.transport
	}
	plain := transport("http")
	for _, address := range []string{"192.0.2.1:4318", "[2001:db8::1]:4318", "0.0.0.0:4318"} {
		_, err := plain.DialContext(t.Context(), "tcp", address)
		failIf(t, !errors.Is(err, ErrPlaintext), "dialling %s: %v", address, err)
	}
	for _, scheme := range []string{"http", "https"} {
		failIf(t, transport(scheme).Proxy != nil, "%s goes by a proxy", scheme)
	}
}
