package simulate

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A header that is null is none; an address that is null or empty is no address.
func TestNullsOfFetchCases(t *testing.T) {
	t.Parallel()
	const of = `{"url":"https://a.example/","allow":["a.example"],"dns":{"a.example":[["93.184.216.34"]]},"routes":{"https://a.example/":{"status":200,"content_type":"text/plain","location":null,"body":"hi"}}}`
	for in, want := range map[string]bool{of: true, strings.Replace(of, `"text/plain"`, "null", 1): true, strings.Replace(of, `["93`, `["","93`, 1): false, strings.Replace(of, `["93`, `[null,"93`, 1): false} {
		_, code := judgeFetch(t.Context(), jsontext.Value(in))
		failIf(t, (code == "") != want, "%q: %s", code, in)
	}
}
