//go:build !linux && !darwin && !freebsd

package mesh

// diskSpace is unknown here: only max_disk_mb limits the streams.
func diskSpace(string) (free, size int64, err error) { return 0, 0, nil }
