package verify

import "fmt"

// Fault says what is wrong with a file, and where: at the first place that
// differs from what was signed. It contains nothing of the file except numbers.
type Fault struct {
	// Decision is the number of the first bad decision: changed, missing or
	// replaced by another. 0: the decisions are not the cause.
	Decision uint64 `json:"decision,omitzero"`
	// Offset is the start of its frame, in bytes of the file.
	Offset int64 `json:"offset"`
	// Within is the start of the decision in the frame's content, in unpacked
	// bytes. -1: the fault is that of the whole frame.
	Within int    `json:"within,omitzero"`
	Reason string `json:"reason"`
}

// Error returns all of it in one line.
func (f *Fault) Error() string {
	where := fmt.Sprintf("at byte %d of the file", f.Offset)
	if f.Within >= 0 {
		where = fmt.Sprintf("in the block at byte %d of the file, at byte %d of its content", f.Offset, f.Within)
	}
	if f.Decision > 0 {
		return fmt.Sprintf("decision %d, %s: %s", f.Decision, where, f.Reason)
	}
	return where + ": " + f.Reason
}
