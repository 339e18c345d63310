package verify

// Limits of a file. They bound the memory that a hostile one can take.
const (
	// MaxBlock bounds the content of a block, in bytes. A message of the journal
	// has at most 1 MiB.
	MaxBlock = 4 << 20
	// maxPayload is the maximum payload of a frame: a block that did not shrink.
	maxPayload = MaxBlock + 64<<10
	// maxText bounds the head, which has at most 64 hashes, and the end.
	maxText = 64 << 10
	// maxChannels bounds the summary.
	maxChannels = 1 << 16
	// maxNumber bounds decisions: sizes of trees are signed numbers elsewhere.
	maxNumber = 1<<63 - 1
)
