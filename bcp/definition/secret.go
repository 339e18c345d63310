package definition

import (
	"strings"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// checkSecrets finds secrets in a file: an error if the shape alone says that it is one (a private key, a vendor's token, a
// password in a URL), a warning if it is like one (a value of an assignment). Definitions are read by models, logged by
// their digest and kept in version control. Neither message has a byte of the secret.
func checkSecrets(s *source, content []byte) {
	text := string(content)
	at, line, begin := 0, 1, 0 // begin: of the line
	for _, f := range guard.Find(text, guard.Keys) {
		line += strings.Count(text[at:f.Start], "\n")
		if i := strings.LastIndexByte(text[at:f.Start], '\n'); i >= 0 {
			begin = at + i + 1
		}
		at = f.Start
		where := position{line, utf8.RuneCountInString(text[begin:at]) + 1}
		if f.Certain {
			s.errorf(where, CodeSecret, "", "this is a secret (%s): remove it, also from version history; pass it to the agent's command in the environment", f.Kind)
		} else {
			s.warnf(where, CodeSecretLike, "", "this looks like a secret (%s)", f.Kind)
		}
	}
}
