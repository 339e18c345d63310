package status

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Storage is what a mesh holds on its disk, in figures alone. Sizes are in bytes.
type Storage struct {
	Used  int64 `json:"used_bytes"`  // of all streams
	Limit int64 `json:"limit_bytes"` // of all streams: max_disk_mb

	// Journal is what the journal holds of JournalLimit, its part of Limit. At that
	// it stops, and nothing is decided any more. The other streams lose their oldest
	// messages at theirs.
	Journal      int64  `json:"journal_bytes"`
	JournalLimit int64  `json:"journal_limit_bytes"`
	Records      uint64 `json:"journal_records"`
	// Begins is the decision that the journal begins after, 0 where it is whole.
	Begins uint64 `json:"begins_behind"`

	// Decisions is the number of the newest decision, and Shown of the newest that audit
	// and ledger show, as far as the gateway's process knows: 0 before the first.
	Decisions uint64 `json:"decisions"`
	Shown     uint64 `json:"shown"`

	// DiskFree and DiskSize are of the file system with the state folder, as this
	// user may use it. On a cluster they are of the node whose store is the fullest:
	// of what JetStream may take there. Both are 0 where that is unknown.
	DiskFree int64 `json:"disk_free_bytes"`
	DiskSize int64 `json:"disk_size_bytes"`

	Snapshot     uint64    `json:"snapshot"` // the decision behind which the newest stands, 0 for none
	SnapshotMade time.Time `json:"snapshot_made,omitzero"`

	// Closed is the alert that says why the gateway lets nothing through, at least on some
	// channels, and empty while it does: rollback_seen, witness_refused or witness_missing.
	Closed bcp.AlertKind `json:"closed,omitzero"`
}

// In percent of the journal's limit, and of DiskSize.
const (
	diskLow      = 80
	diskCritical = 95
)

// Alert is what operators should hear of it, or nothing.
func (s Storage) Alert() bcp.AlertKind {
	switch full := max(percent(s.Journal, s.JournalLimit), percent(s.DiskSize-s.DiskFree, s.DiskSize)); {
	case full >= diskCritical:
		return bcp.AlertDiskCritical
	case full >= diskLow:
		return bcp.AlertDiskLow
	}
	return ""
}

// percent is the whole percents that used is of all, none of nothing. Sizes are
// far below what a hundredth of an int64 counts.
func percent(used, all int64) int64 {
	if used <= 0 || all <= 0 {
		return 0
	}
	return used * 100 / all
}
