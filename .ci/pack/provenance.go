package main

import (
	"encoding/json"
	"time"
)

// provenance writes what was built from what, as an in-toto statement v1 with SLSA's predicate v1. Whoever publishes the
// release signs it; who builds the commit again gets the same digests.
func (r *release) provenance() error {
	results, err := r.digests()
	if err != nil {
		return err
	}
	type object = map[string]any
	var subjects []object
	var platforms []string
	for _, t := range r.targets {
		platforms = append(platforms, t.os+"/"+t.arch)
	}
	for _, one := range results {
		subjects = append(subjects, object{"name": one.name, "digest": object{"sha256": one.sha256}})
	}
	const project = "https://github.com/bcpmesh/bcpmesh"
	text, err := json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":            project + "/blob/" + r.commit + "/.ci/release",
				"externalParameters":   object{"version": "v" + r.version, "platforms": platforms},
				"internalParameters":   object{"date": r.date.Format(time.RFC3339), "go": r.goVersion},
				"resolvedDependencies": []object{{"uri": "git+" + project, "digest": object{"gitCommit": r.commit}}},
			},
			"runDetails": object{"builder": object{"id": project + "/.ci/release"}},
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	return r.write("bcpmesh-"+r.version+".intoto.json", append(text, '\n'))
}
