package state

import (
	"fmt"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Any bytes as changes to be recorded: refused, or written and read again as
// themselves, and an audit that can be replayed.
//
// covers P2.2, P10, A-CRASH, A-ANSI
func FuzzCredentialRecords(f *testing.F) {
	f.Add([]byte(`{"changes":[{"number":1,"time":1,"role":"reader","limits":["source 10.0.0.0/8"],"act":"issue","agent":"mail","key":"UABC"},{"number":2,"time":1,"act":"revoke","agent":"mail","key":"UABC"}]}`))
	f.Add([]byte(`{"changes":[{"number":1,"time":1,"act":"seal"}]}`))
	f.Add([]byte(`{"changes":[{"number":1,"time":1,"act":"issue","agent":"gateway","key":"U","limits":["account CORE"]}]}`))
	f.Add([]byte(`{"changes":[{"number":18446744073709551615,"time":-1,"until":9,"role":"reader"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		changes, code := bcp.ParseCredentialRecords(body)
		if code != "" {
			stopIf(t, code != bcp.Malformed && code != bcp.MessageTooLarge || changes != nil, "%q: %s", body, code)
			return
		}
		w := fuzzedWorld(t)
		for _, c := range changes {
			w.commit(w.state.DecideCredential(w.moment(), c.Act, c.Agent, c.Key, c.CredentialChange))
		}
		stopIf(t, dump(w.state) != dump(w.replay()), "%q replays to another state", body)
		written := must(bcp.Encode(bcp.CredentialRecords{Changes: changes}, bcp.JSON))
		if again, code := bcp.ParseCredentialRecords(written); code != "" && code != bcp.MessageTooLarge || code == "" && fmt.Sprint(again) != fmt.Sprint(changes) {
			t.Fatalf("%q is written %q and read as %+v, %s", body, written, again, code)
		}
	})
}
