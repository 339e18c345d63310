package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func sortFiles(files []file) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// wheelTags are the platforms of wheels (PEP 425, 600, 656). The program is linked
// statically and does not care about the C library; Go 1.26 needs macOS 12.
var wheelTags = map[string]string{
	"linux/amd64":   "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
	"linux/arm64":   "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
	"darwin/amd64":  "macosx_12_0_x86_64",
	"darwin/arm64":  "macosx_12_0_arm64",
	"windows/amd64": "win_amd64",
	"windows/arm64": "win_arm64",
}

// pythonVersion is the version as PEP 440 spells it.
func pythonVersion(version string) string {
	return strings.NewReplacer("-alpha.", "a", "-beta.", "b", "-rc.", "rc").Replace(version)
}

// wheels packs the Python package with the programs of each platform, which become scripts.
func (r *release) wheels() error {
	version := pythonVersion(r.version)
	readme, err := os.ReadFile("agents/python/README.md")
	if err != nil {
		return err
	}
	sources, err := filepath.Glob("agents/python/bcpmesh/*")
	if err != nil {
		return err
	}
	var package_ []file
	for _, source := range sources {
		if info, err := os.Stat(source); err != nil || info.IsDir() {
			continue // compiled files
		}
		f, err := read("bcpmesh/"+filepath.Base(source), source)
		if err != nil {
			return err
		}
		package_ = append(package_, f)
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	for _, t := range r.targets {
		tag := "py3-none-" + wheelTags[t.os+"/"+t.arch]
		info, data := "bcpmesh-"+version+".dist-info/", "bcpmesh-"+version+".data/"
		wheel := "Wheel-Version: 1.0\nGenerator: bcpmesh .ci/pack\nRoot-Is-Purelib: false\n"
		platforms := strings.TrimPrefix(tag, "py3-none-")
		for platform := range strings.SplitSeq(platforms, ".") {
			wheel += "Tag: py3-none-" + platform + "\n"
		}
		metadata := "Metadata-Version: 2.4\nName: bcpmesh\nVersion: " + version +
			"\nSummary: Agents of a bcpmesh in Python: Readers and Controllers on asyncio, with the program\n" +
			"License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.10\nClassifier: Typing :: Typed\n" +
			"Description-Content-Type: text/markdown\n\n" + string(readme)
		files := append(slices.Concat(package_, t.in(data+"scripts/")),
			file{info + "METADATA", 0o644, []byte(metadata)}, file{info + "WHEEL", 0o644, []byte(wheel)}, file{info + "licenses/LICENSE", 0o644, license})
		var record strings.Builder
		for _, f := range files {
			sum := sha256.Sum256(f.content)
			fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
		}
		record.WriteString(info + "RECORD,,\n")
		files = append(files, file{info + "RECORD", 0o644, []byte(record.String())})
		content, err := zipped(files, r.date)
		if err != nil {
			return err
		}
		if err := r.write("bcpmesh-"+version+"-"+tag+".whl", content); err != nil {
			return err
		}
	}
	return nil
}

// npmNames are what Node calls systems and processors.
var npmNames = map[string]string{"windows": "win32", "amd64": "x64"}

func npmName(word string) string {
	if name, ok := npmNames[word]; ok {
		return name
	}
	return word
}

// manifest is a package.json.
type manifest struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	License     string            `json:"license"`
	Type        string            `json:"type,omitempty"`
	Exports     any               `json:"exports,omitempty"`
	Bin         map[string]string `json:"bin,omitempty"`
	Optional    map[string]string `json:"optionalDependencies,omitempty"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Engines     map[string]string `json:"engines,omitempty"`
}

// npm packs the programs of each platform into a package of its own, and agents/typescript into one that
// depends on the one for its machine.
func (r *release) npm() error {
	small := manifest{Name: "bcpmesh", Version: r.version, Description: "Agents of a bcpmesh in TypeScript: Readers and Controllers, with the program", License: "Apache-2.0",
		Type: "module", Exports: map[string]any{".": map[string]string{"types": "./index.d.ts", "default": "./index.js"}},
		Bin: map[string]string{"bcpmesh": "bcpmesh.cjs"}, Optional: map[string]string{}, Engines: map[string]string{"node": ">=20"}}
	for _, t := range r.targets {
		system, cpu := npmName(t.os), npmName(t.arch)
		m := manifest{Name: "@bcpmesh/" + system + "-" + cpu, Version: r.version, Description: "The program bcpmesh for " + system + " " + cpu,
			License: "Apache-2.0", OS: []string{system}, CPU: []string{cpu}}
		small.Optional[m.Name] = r.version
		if err := r.npmPackage(m, t.in("package/bin/")...); err != nil {
			return err
		}
	}
	start, err := read("package/bcpmesh.cjs", ".ci/pack/files/bcpmesh.cjs")
	if err != nil {
		return err
	}
	start.mode = 0o755
	files := []file{start}
	for _, name := range []string{"README.md", "index.d.ts", "index.js"} {
		f, err := read("package/"+name, "agents/typescript/"+name)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	return r.npmPackage(small, files...)
}

func (r *release) npmPackage(m manifest, files ...file) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	license, err := read("package/LICENSE", "LICENSE")
	if err != nil {
		return err
	}
	packed, err := tarGzip(append([]file{{"package/package.json", 0o644, append(text, '\n')}, license}, files...), r.date)
	if err != nil {
		return err
	}
	return r.write("npm-"+strings.NewReplacer("@", "", "/", "-").Replace(m.Name)+"-"+r.version+".tgz", packed)
}
