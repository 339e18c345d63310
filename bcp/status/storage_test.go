package status

import (
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Alerts come at 80 and 95 % of the journal's limit or of the disk, whichever is fuller, and
// not a hair before.
//
// covers P4.6
func TestStorageAlert(t *testing.T) {
	t.Parallel()
	const gb = 1 << 30
	for name, c := range map[string]struct {
		s    Storage
		want bcp.AlertKind
	}{
		"nothing known":        {Storage{}, ""},
		"no limit":             {Storage{Journal: gb}, ""},
		"empty":                {Storage{JournalLimit: gb, DiskFree: gb, DiskSize: gb}, ""},
		"below 80":             {Storage{Journal: 799, JournalLimit: 1000}, ""},
		"at 80":                {Storage{Journal: 800, JournalLimit: 1000}, bcp.AlertDiskLow},
		"below 95":             {Storage{Journal: 949, JournalLimit: 1000}, bcp.AlertDiskLow},
		"at 95":                {Storage{Journal: 950, JournalLimit: 1000}, bcp.AlertDiskCritical},
		"beyond":               {Storage{Journal: 2000, JournalLimit: 1000}, bcp.AlertDiskCritical},
		"disk below 80":        {Storage{JournalLimit: gb, DiskFree: 201, DiskSize: 1000}, ""},
		"disk at 80":           {Storage{JournalLimit: gb, DiskFree: 200, DiskSize: 1000}, bcp.AlertDiskLow},
		"disk at 95":           {Storage{Journal: 800, JournalLimit: 1000, DiskFree: 50, DiskSize: 1000}, bcp.AlertDiskCritical},
		"the largest limit":    {Storage{Journal: 1 << 49, JournalLimit: 1 << 50}, ""},
		"the largest, at 80":   {Storage{Journal: 1<<49*8/5 + 1, JournalLimit: 1 << 50}, bcp.AlertDiskLow},
		"a disk that is lying": {Storage{DiskFree: 2000, DiskSize: 1000}, ""},
	} {
		if got := c.s.Alert(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
