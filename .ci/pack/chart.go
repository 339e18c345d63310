package main

import (
	"fmt"
	"os"
	"strings"
)

// chartValues are what a user of the chart may set. The rest is docs/production/kubernetes.yaml.
const chartValues = `# Two gateways beside a NATS cluster: docs/production.md of bcpmesh.
image: bcpmesh:%s
# Some servers of the cluster, with commas between them.
url: nats://nats:4222
# The config map with mesh.yaml and the definitions of the agents.
definitions: mesh
resources:
  requests: {cpu: "1", memory: 512Mi}
  limits: {memory: 2Gi}
`

// templated are the places of kubernetes.yaml that take a value, each of which has to
// be there once.
var templated = []struct{ from, to string }{
	{`image: bcpmesh:latest`, `image: {{ .Values.image | quote }}`},
	{`"nats://nats:4222"`, `{{ .Values.url | quote }}`},
	{`configMap: {name: mesh}`, `configMap: {name: {{ .Values.definitions | quote }}}`},
	{`resources: {requests: {cpu: "1", memory: 512Mi}, limits: {memory: 2Gi}}`, `resources: {{ toJson .Values.resources }}`},
}

// chart makes a Helm chart of the documented manifests.
func (r *release) chart() error {
	manifests, err := os.ReadFile("docs/production/kubernetes.yaml")
	if err != nil {
		return err
	}
	template, err := chartTemplate(string(manifests))
	if err != nil {
		return err
	}
	license, err := read("bcpmesh/LICENSE", "LICENSE")
	if err != nil {
		return err
	}
	about := fmt.Sprintf("apiVersion: v2\nname: bcpmesh\ndescription: Gateways of a bcpmesh beside a NATS cluster\ntype: application\nversion: %s\nappVersion: %q\n", r.version, r.version)
	content, err := tarGzip([]file{{"bcpmesh/Chart.yaml", 0o644, []byte(about)}, {"bcpmesh/values.yaml", 0o644, fmt.Appendf(nil, chartValues, r.version)},
		{"bcpmesh/templates/gateway.yaml", 0o644, []byte(template)}, license}, r.date)
	if err != nil {
		return err
	}
	return r.write("bcpmesh-chart-"+r.version+".tgz", content)
}

func chartTemplate(manifests string) (string, error) {
	for _, t := range templated {
		if strings.Count(manifests, t.from) != 1 {
			return "", fmt.Errorf("docs/production/kubernetes.yaml has %q not once", t.from)
		}
		manifests = strings.Replace(manifests, t.from, t.to, 1)
	}
	return manifests, nil
}
