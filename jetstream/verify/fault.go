package verify

import "fmt"

// Fault says what is wrong with a file, and where: at the first place where it
// is not what was signed. No byte of the file is in it but numbers.
type Fault struct {
	// Decision is the number of the first bad decision: the one that was changed,
	// or is missing, or in whose place another stands. 0: the decisions are not
	// to blame.
	Decision uint64
	// Offset is where the frame with it begins, in bytes of the file.
	Offset int64
	// Within is where the decision begins in the content of that frame, in bytes
	// of what is unpacked. -1: the fault is that of the whole frame.
	Within int
	Reason string
}

// Error says all of it in one line.
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
