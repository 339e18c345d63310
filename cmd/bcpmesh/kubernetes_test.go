package main

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// pod is what docs/production/kubernetes.yaml says of the container of a gateway.
type pod struct {
	Args  []string `yaml:"args"`
	Ports []struct {
		Name          string `yaml:"name"`
		ContainerPort string `yaml:"containerPort"`
	} `yaml:"ports"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	VolumeMounts   []struct {
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
}

func gatewayPod(t *testing.T) pod {
	t.Helper()
	file := must(os.Open("../../docs/production/kubernetes.yaml"))(t)
	defer func() { _ = file.Close() }() // it is only read
	documents := must(yaml.NewLoader(file))(t)
	var set struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []pod `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	if err := documents.Load(&set); err != nil || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d containers: %v", len(set.Spec.Template.Spec.Containers), err)
	}
	return set.Spec.Template.Spec.Containers[0]
}

// The command line of the Kubernetes files starts a gateway whose probes are answered, and
// whose metrics are served to who has the token, at every address of the pod.
func TestProbesAndMetricsReachThePod(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	p := gatewayPod(t)
	x := startExported(t)
	here := t.TempDir()
	secret, ready := filepath.Join(here, "token"), filepath.Join(here, "ready.json")
	noError(t, os.WriteFile(secret, []byte(token), 0o600))
	stopIf(t, len(p.Ports) != 1 || !slices.Contains(p.Args, ":"+p.Ports[0].ContainerPort),
		"the ports %v are not that of %q", p.Ports, p.Args)
	args := []string{"--ready-file", ready}
	for _, arg := range p.Args {
		if strings.HasPrefix(arg, "/") && !slices.ContainsFunc(p.VolumeMounts, func(m struct {
			MountPath string `yaml:"mountPath"`
		}) bool {
			return arg == m.MountPath || strings.HasPrefix(arg, m.MountPath+"/")
		}) {
			t.Errorf("nothing is mounted at %s", arg)
		}
		if local, ok := map[string]string{
			"/mesh": x.dir, "nats://nats:4222": x.cluster.URL(), "/gateways/$(POD)": filepath.Join(x.files, keys.GatewaysFolder, "one"), "$(POD)": "one",
			"/state": filepath.Join(here, "state"), ":" + p.Ports[0].ContainerPort: ":0", "/metrics-token/token": secret,
		}[arg]; ok {
			arg = local
		}
		args = append(args, arg)
	}
	program := exec.Command("bcpmesh", append(args[2:], args[:2]...)...)
	program.Stderr = t.Output()
	noError(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait() // it was ended
	})
	gateway := &process{cmd: program}
	gateway.awaitReady(t, ready)
	at := must(url.Parse(gateway.metrics))(t)
	addresses, err := net.InterfaceAddrs()
	stopIf(t, err != nil || len(addresses) == 0, "no addresses: %v", err)
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok || network.IP.To4() == nil {
			continue
		}
		get := func(path, token string, want int) {
			t.Helper()
			r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(network.IP.String(), at.Port())+path, nil))(t)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: clustertest.Patience}
			response := must(client.Do(r))(t)
			_ = response.Body.Close() // its status is enough
			expect(t, response.StatusCode, want, "%s%s: %s", network.IP, path, response.Status)
		}
		for _, probe := range []probe{p.LivenessProbe, p.ReadinessProbe} {
			expect(t, probe.HTTPGet.Port, p.Ports[0].Name, "a probe asks port")
			get(probe.HTTPGet.Path, "", http.StatusOK)
		}
		get("/metrics", "", http.StatusUnauthorized)
		get("/metrics", token, http.StatusOK)
	}
}
