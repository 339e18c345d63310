package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// sbom writes what the programs are made of, as SPDX 2.3: every module that is linked
// into one of them, as the program itself says.
func (r *release) sbom() error {
	type modules struct{ path, version string }
	seen := map[modules]bool{}
	for _, t := range r.targets {
		for _, at := range t.paths {
			info, err := buildinfo.ReadFile(at)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", t.os, t.arch, err)
			}
			r.goVersion = strings.TrimPrefix(info.GoVersion, "go")
			for _, m := range info.Deps {
				if m.Replace != nil {
					m = m.Replace
				}
				if !strings.HasPrefix(m.Path, "github.com/bcpmesh/bcpmesh") { // what is packed is no part of itself
					seen[modules{m.Path, m.Version}] = true
				}
			}
		}
	}
	all := []modules{{"std", r.goVersion}}
	for m := range seen {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b modules) int { return strings.Compare(a.path+"@"+a.version, b.path+"@"+b.version) })
	type object = map[string]any
	packages := []object{{"SPDXID": "SPDXRef-bcpmesh", "name": "bcpmesh", "versionInfo": r.version, "downloadLocation": "NOASSERTION",
		"licenseDeclared": "Apache-2.0", "filesAnalyzed": false, "sourceInfo": "commit " + r.commit}}
	relations := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-bcpmesh"}}
	digest := sha256.New()
	for _, m := range all {
		fmt.Fprintf(digest, "%s@%s\n", m.path, m.version)
		sum := sha256.Sum256([]byte(m.path + "@" + m.version))
		id := "SPDXRef-" + hex.EncodeToString(sum[:8])
		packages = append(packages, object{"SPDXID": id, "name": m.path, "versionInfo": m.version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
			"externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:golang/" + m.path + "@" + m.version}}})
		relations = append(relations, object{"spdxElementId": "SPDXRef-bcpmesh", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": id})
	}
	text, err := json.MarshalIndent(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "bcpmesh-" + r.version,
		"documentNamespace": "https://github.com/bcpmesh/bcpmesh/spdx/" + r.version + "-" + hex.EncodeToString(digest.Sum(nil)[:16]),
		"creationInfo":      object{"created": r.date.Format(time.RFC3339), "creators": []string{"Tool: bcpmesh .ci/pack"}},
		"packages":          packages, "relationships": relations,
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.write("bcpmesh-"+r.version+".spdx.json", append(text, '\n'))
}
