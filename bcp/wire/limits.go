package wire

const (
	// MaxDepth is how deep objects and arrays may nest (PROTOCOL P2.2). It bounds
	// the state that reading keeps.
	MaxDepth = 8

	// MaxKeys is how many keys an object may have. It bounds the search for repeated
	// keys to MaxKeys comparisons a key. No object of the protocol has more than 64
	// fields (P1.3).
	MaxKeys = 256

	// maxFraction is how many characters a number with a fraction or an exponent
	// may have in [MsgpackFromJSON]. A float64 is spelled in 24.
	maxFraction = 32
)
