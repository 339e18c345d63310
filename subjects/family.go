package subjects

import (
	"slices"
	"strings"
)

// The families that do not belong to the mesh.
const (
	FamilyStreams = "streams" // JetStream's interface, and what is built on it
	FamilySystem  = "system"  // the server's own
	FamilyInbox   = "inbox"   // replies
)

// families are the prefixes of subjects outside the mesh.
var families = []struct{ prefix, family string }{
	{"$JS.", FamilyStreams}, {AuditPrefix + ".", FamilyStreams}, {"$KV.", FamilyStreams}, {"$O.", FamilyStreams},
	{"$SYS.", FamilySystem}, {"_INBOX", FamilyInbox}, {"_R_.", FamilyInbox},
}

// Family returns a word of ours for a subject or pattern from anybody: its
// [Kind], one of those above, or nothing if it is like none. It says nothing else
// about the subject, not even that it is valid.
func Family(subject string) string {
	if rest, ok := strings.CutPrefix(subject, root); ok {
		word, _, _ := strings.Cut(rest, ".")
		if slices.Contains(kindWords[1:], word) {
			return word
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
