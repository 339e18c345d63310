package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

var spentBits = regexp.MustCompile(`"settled_bits":([0-9.]+)`)

// relayed are the folders of a mesh at a site and of one above it, whose creds lie in a
// third.
func relayed(t *testing.T) (site, head, creds string) {
	t.Helper()
	site, head, creds = t.TempDir(), t.TempDir(), t.TempDir()
	subscription := "subscriptions: [{id: readings, category: 1, fields: [{name: n, type: integer, min: 0, max: 9999}]}]"
	for name, text := range map[string]string{
		filepath.Join(site, "gate.md"):   "---\nname: gate\nbcp_channels:\n- {peer: sensor, role: controller, max_category: 1, budget_bits: 100000, " + subscription + "}\n---\n",
		filepath.Join(site, "sensor.md"): "---\nname: sensor\nbcp_channels:\n- {peer: gate, role: reader}\n---\n",
		filepath.Join(head, "main.md"):   "---\nname: main\nbcp_channels:\n- {peer: site7, role: controller, max_category: 1, budget_bits: 100000, " + subscription + "}\n---\n",
		filepath.Join(head, "site7.md"):  "---\nname: site7\nbcp_channels:\n- {peer: main, role: reader}\n---\n",
	} {
		noError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	for name, args := range map[string][]string{"gate": {"--role", "controller", "--dir", site}, "sensor": {"--role", "reader", "--dir", site}, "site7": {"--role", "reader", "--dir", head}, "main": {"--role", "controller", "--dir", head}} {
		code, _, stderr := says(t, append([]string{"creds", "issue", name, "--out", filepath.Join(creds, name+".creds")}, args...)...)
		stopIf(t, code != 0, "%v", stderr)
	}
	return site, head, creds
}

// Relay and both meshes are killed, over and over, while a site pushes: above each reading
// comes once and in order.
//
// covers P2.6
func TestRelayIsKilled(t *testing.T) {
	t.Parallel()
	site, head, creds := relayed(t)
	store := t.TempDir()
	addresses := map[string]string{site: clustertest.FreeAddress(t), head: clustertest.FreeAddress(t)}
	meshes := map[string]*process{}
	for dir, address := range addresses {
		meshes[dir] = startProcess(t, dir, address)
	}
	carry := func() *exec.Cmd {
		t.Helper()
		cmd := exec.Command("bcpmesh", "relay", "--below", filepath.Join(creds, "gate.creds"), "--below-url", "nats://"+addresses[site],
			"--above", filepath.Join(creds, "site7.creds"), "--above-url", "nats://"+addresses[head], "--store", store, "--map", "sensor/readings=main/readings")
		cmd.Stderr = t.Output()
		noError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	connect := func(name bcp.AgentName, dir string) *agents.Connection {
		t.Helper()
		c, err := agents.Connect(t.Context(), "nats://"+addresses[dir], agents.CredsFile(filepath.Join(creds, string(name)+".creds")),
			agents.Options{Name: name, Logger: hclog.NewNullLogger(), NATS: []nats.Option{nats.RetryOnFailedConnect(true)}})
		noError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	main := agents.NewController(connect("main", head))
	var mu sync.Mutex
	var got []string
	known := map[bcp.DeliveryID]bool{}
	main.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if !known[d.DeliveryID] {
			known[d.DeliveryID] = true
			got = append(got, string(d.Response))
		}
		return nil
	})
	noError(t, main.Start(t.Context()))
	sensor := agents.NewReader(connect("sensor", site))
	n := 0
	push := func(count int) {
		t.Helper()
		for range count {
			ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
			_, err := sensor.Push(ctx, "gate", "readings", map[string]int{"n": n}, agents.PushOptions{})
			cancel()
			stopIf(t, err != nil, "push %d: %v", n, err)
			n++
		}
	}
	relay := carry()
	for round := range 6 {
		push(20)
		switch round % 3 {
		case 0:
			meshes[head].kill()
			push(5)
			meshes[head] = startProcess(t, head, addresses[head])
		case 1:
			meshes[site].kill()
			meshes[site] = startProcess(t, site, addresses[site])
		}
		push(5)
		_ = relay.Process.Kill()
		_ = relay.Wait()
		relay = carry()
	}
	push(5)
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(got) }
	for deadline := time.Now().Add(clustertest.Patience); count() < n; time.Sleep(20 * time.Millisecond) {
		stopIf(t, time.Now().After(deadline), "%d of %d came", count(), n)
	}
	mu.Lock()
	defer mu.Unlock()
	for i, text := range got {
		stopIf(t, text != fmt.Sprintf(`{"n":%d}`, i), "the reading %d is %s", i, text)
	}
	failIf(t, len(got) != n, "%d came, and %d were pushed", len(got), n)
	// Both ledgers have spent the same.
	var spent []string
	for _, dir := range []string{site, head} {
		_, shown, stderr := says(t, "ledger", "show", "--json", "--dir", dir)
		found := spentBits.FindStringSubmatch(shown)
		stopIf(t, found == nil, "%v %v", shown, stderr)
		spent = append(spent, found[1])
	}
	failIf(t, spent[0] != spent[1] || spent[0] == "0", "spent below and above: %q", spent)
}

// A relay does not begin what it could not do: it says which flag, route or creds are
// wrong, and that a subscription cannot be relayed.
func TestRelayIsRefused(t *testing.T) {
	t.Parallel()
	site, head, creds := relayed(t)
	at, up := startProcess(t, site, "127.0.0.1:0").url, startProcess(t, head, "127.0.0.1:0").url
	file := func(name string) string { return filepath.Join(creds, name+".creds") }
	good := []string{"--below", file("gate"), "--below-url", at, "--above", file("site7"), "--above-url", up, "--store", t.TempDir()}
	taken := t.TempDir()
	lock := flock.New(filepath.Join(taken, "lock"))
	locked, err := lock.TryLock()
	stopIf(t, err != nil || !locked, "%v %v", locked, err)
	t.Cleanup(func() { _ = lock.Close() })
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "is in use by another relay", append(good[:8:8], "--store", taken, "--map", "sensor/readings=main/readings")},
		{2, "expected --map", good},
		{2, "expected READER/SUBSCRIPTION=", append(good, "--map", "sensor")},
		{2, "begin at the same subscription", append(good, "--map", "sensor/readings=main/readings", "--map", "sensor/readings=main/other")},
		{1, "there is no subscription sensor/alarms below", append(good, "--map", "sensor/readings=main/readings", "--map", "sensor/alarms=main/readings")},
		{1, "no route begins at the subscription", append(good, "--map", "sensor/alarms=main/readings")},
		{2, "expected --store", append(good[:8:8], "--map", "sensor/readings=main/readings")},
		{1, "--above is for a reader", append([]string{"--above", file("main"), "--store", t.TempDir(), "--map", "sensor/readings=main/readings"}, good[:4]...)},
		{1, "they must be of the same agent", append(good, "--map", "sensor/readings=main/readings", "--report", file("main"))},
	} {
		code, _, stderr := says(t, append([]string{"relay"}, c.args...)...)
		failIf(t, code != c.code || !strings.Contains(stderr, c.says), "%q: %d %s", c.args, code, stderr)
	}
}
