//go:build linux || darwin || freebsd

package mesh

import "syscall"

// diskSpace returns what this user may use of the file system of a folder, and what
// of that is free, in bytes.
func diskSpace(folder string) (free, size int64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, 0, err
	}
	block := int64(fs.Bsize)
	free = int64(fs.Bavail) * block
	return free, (int64(fs.Blocks)-int64(fs.Bfree))*block + free, nil
}
