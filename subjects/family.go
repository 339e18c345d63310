package subjects

import "strings"

// The families that are not of the mesh.
const (
	FamilyStreams = "streams" // the interface of JetStream, and what is built on it
	FamilySystem  = "system"  // the server's own
	FamilyInbox   = "inbox"   // replies
)

// families are the prefixes of subjects that are not of the mesh.
var families = []struct{ prefix, family string }{
	{"$JS.", FamilyStreams}, {AuditPrefix + ".", FamilyStreams}, {"$KV.", FamilyStreams}, {"$O.", FamilyStreams},
	{"$SYS.", FamilySystem}, {"_INBOX", FamilyInbox}, {"_R_.", FamilyInbox},
}

// Family says what a subject or pattern that anybody wrote is about, in a word of
// ours: that of its [Kind], one of those above, or nothing if it is like none. It
// tells nothing else of the subject, and not that it is a valid one.
func Family(subject string) string {
	if rest, ok := strings.CutPrefix(subject, root); ok {
		word, _, _ := strings.Cut(rest, ".")
		for k := KindAsk; k <= KindRole; k++ {
			if kindWords[k] == word {
				return word
			}
		}
		return ""
	}
	for _, f := range families {
		if strings.HasPrefix(subject, f.prefix) {
			return f.family
		}
	}
	return ""
}
