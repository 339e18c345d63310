//go:build linux || darwin || freebsd

package mesh

import "syscall"

// Disk returns the free space in a folder's file system and its size, as far as
// this user may use them, in bytes: both 0 if the system does not say.
func Disk(folder string) (free, size int64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, 0, err
	}
	block := int64(fs.Bsize)
	free = int64(fs.Bavail) * block
	return free, (int64(fs.Blocks)-int64(fs.Bfree))*block + free, nil
}
