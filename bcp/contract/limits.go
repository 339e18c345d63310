package contract

import "time"

// Limits of what is read. Anything beyond them is refused.
const (
	// MaxContract is the length of a contract in bytes.
	MaxContract = 64 << 10
	// MaxEnvelope is the length in bytes of an envelope, of its payload, of a
	// revocation list and of a requirement.
	MaxEnvelope = 64 << 10

	// maxInvariants of one contract: a report of all of them fits a screen or two.
	maxInvariants = 64
	// maxWords of a contract's capabilities, and of what it prohibits: more than
	// the table of words has.
	maxWords = 64
	// maxText is the length of a description or a formula, in bytes.
	maxText = 4096
	// maxLabel is the length of any other text, in bytes.
	maxLabel = 512

	// maxSignatures of one envelope. Each costs a verification for each trusted key
	// of the organisation.
	maxSignatures = 8
	// maxKeys is the number of user keys that may speak for one agent.
	maxKeys = 64
	// maxRevoked is the number of serials, and of keys, of one revocation list.
	maxRevoked = 1000
	// maxDemands is the number of invariants that a requirement names, and of
	// architectures, and of types of orchestrators.
	maxDemands = 64

	// MaxValidity is the longest time that an attestation may be good for: what is
	// attested changes with each deployment.
	MaxValidity = 7 * 24 * time.Hour
)
