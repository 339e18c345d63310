package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
)

// file is a file of a package, or an empty folder if its name ends with a slash.
type file struct {
	name    string
	mode    int64
	content []byte
}

// read makes a file of one of the tree.
func read(name, from string) (file, error) {
	content, err := os.ReadFile(from)
	return file{name, 0o644, content}, err
}

// tarball packs files: names, modes and contents say everything about it.
func tarball(files []file, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: date, Format: tar.FormatPAX}
		if strings.HasSuffix(f.name, "/") {
			head.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// compressed packs content with gzip, whose head says nothing.
func compressed(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// tarGzip packs files.
func tarGzip(files []file, date time.Time) ([]byte, error) {
	content, err := tarball(files, date)
	if err != nil {
		return nil, err
	}
	return compressed(content)
}

// zipped packs files.
func zipped(files []file, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		head := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		head.SetMode(os.FileMode(f.mode))
		out, err := w.CreateHeader(head)
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// archives packs the programs of each platform with their documents.
func (r *release) archives() error {
	for _, t := range r.targets {
		base := fmt.Sprintf("bcpmesh_%s_%s_%s", r.version, t.os, t.arch)
		files := t.in(base + "/")
		for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"} {
			f, err := read(path.Join(base, name), name)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		for _, page := range r.pages {
			page.name = path.Join(base, page.name)
			files = append(files, page)
		}
		claude, err := plugin(path.Join(base, "claude-code"), r.version)
		if err != nil {
			return err
		}
		files = append(files, claude...)
		pack, suffix := tarGzip, ".tar.gz"
		if t.os == "windows" {
			pack, suffix = zipped, ".zip"
		}
		content, err := pack(files, r.date)
		if err != nil {
			return err
		}
		if err := r.write(base+suffix, content); err != nil {
			return err
		}
	}
	return nil
}
