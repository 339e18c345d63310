//go:build !linux && !darwin && !freebsd

package mesh

// diskSpace is not known here: max_disk_mb alone limits the streams.
func diskSpace(string) (free, size int64, err error) { return 0, 0, nil }
