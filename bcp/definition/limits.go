package definition

// Limits of a folder. An operator writes it, but a reload must not let a slip
// or a stolen account exhaust the gateway.
const (
	// MaxFileBytes bounds one agent file, MaxMeshBytes the mesh.yaml, which
	// holds the word lists.
	MaxFileBytes = 256 << 10
	MaxMeshBytes = 1 << 20
	// MaxFolderBytes bounds all files together: a million channels with a
	// subscription each take 254 MiB.
	MaxFolderBytes = 320 << 20
	// MaxFiles bounds the number of files.
	MaxFiles = 16_384
	// MaxDepth bounds how deep lists and mappings nest. The deepest legal
	// value, a question's list of values, has depth 8.
	MaxDepth = 12
	// MaxVocabularyWords bounds the words of all word lists together.
	MaxVocabularyWords = 65_536
	// MaxWordChars bounds one word of a word list, as PROTOCOL P3.3 does.
	MaxWordChars = 24

	// MinEgressBytes is the least that egress_bytes and egress_host_bytes may be: room
	// is reserved for all that one request may take on the wire, so that with less
	// nothing could ever be fetched.
	MinEgressBytes = 4 << 20

	// maxNamedTexts bounds the grants of a requester, and the capabilities of a grant.
	maxNamedTexts = 256
	// maxProblems bounds the errors, and the warnings, of one report.
	maxProblems = 1_000
	// maxSuggestions bounds the problems for which all agents are searched for
	// a similar name.
	maxSuggestions = 100
	// maxQuoted bounds what a message quotes of a file, in code points.
	maxQuoted = 40
)
