package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// descriptor points at a blob (OCI image-spec 1.1, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// image writes one image for all platforms of Linux, from nothing but the programs, as an
// OCI layout in a tar file: skopeo, crane, podman and docker load it.
func (r *release) image() error {
	const oci = "application/vnd.oci.image."
	blobs := map[string]file{}
	blob := func(mediaType string, content []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		blobs[sum] = file{"blobs/sha256/" + sum, 0o644, content}
		return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}
	}
	object := func(mediaType string, value any) (descriptor, error) {
		content, err := json.Marshal(value)
		return blob(mediaType, content), err
	}
	var manifests []descriptor
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		// Nothing else is in it: what a command keeps until it ends is in /tmp.
		layer, err := tarball(append(t.in(""), file{name: "tmp/", mode: 0o1777}), r.date)
		if err != nil {
			return err
		}
		packed, err := compressed(layer)
		if err != nil {
			return err
		}
		config, err := object(oci+"config.v1+json", map[string]any{
			"created": r.date.Format(time.RFC3339), "os": t.os, "architecture": t.arch,
			"config": map[string]any{
				"User": "65532:65532", "Entrypoint": []string{"/bcpmesh"}, "WorkingDir": "/",
				"Labels": map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit, "org.opencontainers.image.licenses": "Apache-2.0"},
			},
			"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
			"history": []any{map[string]any{"created": r.date.Format(time.RFC3339), "created_by": ".ci/release"}},
		})
		if err != nil {
			return err
		}
		manifest, err := object(oci+"manifest.v1+json", map[string]any{
			"schemaVersion": 2, "mediaType": oci + "manifest.v1+json", "config": config,
			"layers": []descriptor{blob(oci+"layer.v1.tar+gzip", packed)},
		})
		if err != nil {
			return err
		}
		manifest.Platform = &platform{t.os, t.arch}
		manifests = append(manifests, manifest)
	}
	if manifests == nil {
		return nil
	}
	all, err := object(oci+"index.v1+json", map[string]any{"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": manifests})
	if err != nil {
		return err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "bcpmesh:" + r.version}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": []descriptor{all}})
	if err != nil {
		return err
	}
	files := []file{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}}
	for _, b := range blobs {
		files = append(files, b)
	}
	sortFiles(files)
	content, err := tarball(files, r.date)
	if err != nil {
		return err
	}
	return r.write("bcpmesh-"+r.version+"-image.tar", content)
}
