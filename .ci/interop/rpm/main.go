// Command rpm unpacks an rpm into a folder, by a reader of such files that is not the one who wrote it.
//
//	go run . FILE FOLDER
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sassoftware/go-rpmutils"
)

func main() {
	if err := unpack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "rpm:", err)
		os.Exit(1)
	}
}

func unpack(from, to string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	rpm, err := rpmutils.ReadRpm(file)
	if err != nil {
		return err
	}
	if err := rpm.ExpandPayload(to); err != nil { // which leaves out the modes
		return err
	}
	files, err := rpm.Header.GetFiles()
	for _, f := range files {
		if err := os.Chmod(filepath.Join(to, f.Name()), os.FileMode(f.Mode()).Perm()); err != nil {
			return err
		}
	}
	return err
}
