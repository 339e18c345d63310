//go:build !unix

package serve

import "os"

// AppendOnly does nothing: files of this system are not cut while they are written.
func AppendOnly(...*os.File) {}
