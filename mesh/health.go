package mesh

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Health is what a check found. Its words stand in outputs.
type Health string

const (
	Healthy Health = "ok"
	Warned  Health = "warn" // it works, and will not for ever
	Failed  Health = "fail"
)

// Finding is the result of one check. Ids are stable: scripts and people look for them.
type Finding struct {
	ID     string `json:"id"`
	Health Health `json:"status"`
	Says   string `json:"says"`
	Todo   string `json:"todo,omitempty"`
}

// Checkup looks at what may be wrong with a mesh, and collects findings. It changes
// nothing. Its methods are not for concurrent use.
type Checkup struct {
	Findings []Finding `json:"checks"`
	Now      time.Time `json:"-"` // by this machine's clock
}

// Add adds a finding.
func (c *Checkup) Add(id string, h Health, todo, format string, args ...any) {
	c.Findings = append(c.Findings, Finding{ID: id, Health: h, Says: fmt.Sprintf(format, args...), Todo: todo})
}

// OK adds that nothing is wrong.
func (c *Checkup) OK(id, format string, args ...any) { c.Add(id, Healthy, "", format, args...) }

// Count counts the findings of a health.
func (c *Checkup) Count(h Health) (n int) {
	for _, f := range c.Findings {
		if f.Health == h {
			n++
		}
	}
	return n
}

// State looks at a state folder whose keys are in store, with def, its definitions, if they
// are at hand (nil); onCluster says that its journal is on a cluster.
func (c *Checkup) State(state string, store *accounts.Store, def *bcp.Mesh, onCluster bool) {
	c.OK("keys", "those of the operator, the accounts and the gateway are there")
	if users, err := store.Users(); err != nil {
		c.Add("creds-expiry", Failed, "restore the keys from a backup", "%s", err)
	} else {
		c.expiry(users, def)
	}
	if onCluster {
		c.OK("resolver", "the claims are those of the cluster, which a gateway checks before it decides")
	} else {
		c.resolver(state, def)
		c.journalFiles(state)
	}
	c.authority(state)
	c.newestFile(state)
}

// Modes looks in a state folder for what others may read or write: the state is its owner's alone.
func (c *Checkup) Modes(state string) {
	const id = "state-mode"
	if runtime.GOOS == "windows" {
		c.OK(id, "this system has no file modes")
		return
	}
	var open []string
	err := filepath.WalkDir(state, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(state, name)
		if err != nil {
			return err
		}
		if e.IsDir() && strings.Count(rest, string(filepath.Separator)) > 1 {
			return fs.SkipDir // below a closed folder
		}
		private := e.IsDir() || slices.Contains([]string{"keys", "tls", "run"}, strings.Split(rest, string(filepath.Separator))[0])
		if name == accounts.AuthorityFile(state) { // it is given away
			return nil
		}
		if info, err := e.Info(); err == nil && private && (info.Mode().Perm()&0o077 != 0 || info.Mode()&fs.ModeSymlink != 0) {
			open = append(open, rest)
		}
		return nil
	})
	switch {
	case err != nil:
		c.Add(id, Failed, "only you may read the state folder, and you must be able to", "%s cannot be read: %s", strconv.Quote(state), disk.Reason(err))
	case len(open) > 0:
		slices.Sort(open)
		c.Add(id, Failed, "chmod -R go= "+state+"; if somebody else could read keys, rotate them", "others may access %s", tell.FirstNames(open, 3))
	default:
		c.OK(id, "only you can access %s", state)
	}
}

// expiry looks for agents of which no creds are good any more, or not for long.
func (c *Checkup) expiry(users []accounts.User, def *bcp.Mesh) {
	const id = "creds-expiry"
	over, soon, parties := Expiring(users, def, c.Now)
	switch {
	case len(over) > 0:
		c.Add(id, Warned, "bcpmesh creds issue AGENT --out FILE", "the last creds have expired: %s", tell.FirstNames(over, 3))
	case len(soon) > 0:
		c.Add(id, Warned, "bcpmesh creds issue AGENT --out FILE", "the last creds expire soon: %s", tell.FirstNames(soon, 3))
	default:
		c.OK(id, "%d parties have creds that do not expire soon", parties)
	}
}

// Expiring returns who has no creds that are good any more, and who has none for
// long, sorted; and how many have or had any. Who is not in the definitions is left
// out, if there are some.
func Expiring(users []accounts.User, def *bcp.Mesh, now time.Time) (over, soon []string, parties int) {
	party := func(agent bcp.AgentName, role bcp.Role) string { return string(agent) + " as " + role.String() }
	defined := map[string]bool{}
	if def != nil {
		for _, s := range subjects.Permissions(def) {
			defined[party(s.Agent, s.Role)] = true
		}
	}
	last := accounts.Lasting(users)
	for _, u := range last {
		switch name := party(u.Agent, u.Role); {
		case def != nil && !defined[name]: // it is gone
		case u.Status(now) == "expired":
			over = append(over, name)
		case accounts.EndsSoon(u.Issued, u.Expires, now):
			soon = append(soon, name+" in "+tell.Within(u.Expires.Sub(now)))
		}
	}
	slices.Sort(over)
	slices.Sort(soon)
	return over, soon, len(last)
}

// resolver reads the claims that the server was given last, and compares what it enforces with the definitions.
func (c *Checkup) resolver(state string, def *bcp.Mesh) {
	claims, err := server.ReadEnforced(state)
	switch {
	case err != nil:
		c.Add("resolver", Failed, "restart the mesh: it rewrites them", "the claims in %s", err)
		return
	case claims.Accounts == 0:
		c.OK("resolver", "no claims yet: the first start makes them")
		return
	}
	c.OK("resolver", "claims of %s", tell.Count(claims.Accounts, "account"))
	c.size(claims.Largest)
	if def == nil {
		return
	}
	var differ []string
	for _, s := range subjects.Permissions(def) {
		if !claims.Grant(s) {
			differ = append(differ, string(s.Agent)+" as "+s.Role.String())
		}
	}
	if len(differ) > 0 {
		c.Add("permissions", Warned, "bcpmesh reload, or a start, applies the definitions", "the server's permissions differ from the definitions for %s", tell.FirstNames(differ, 3))
		return
	}
	c.OK("permissions", "the server has what the definitions say")
}

// size judges the largest account's claims: beyond 1 MiB nobody connects.
func (c *Checkup) size(largest int) {
	const id, most = "jwt-size", accounts.MaxAccountJWT
	switch text := fmt.Sprintf("the largest account's claims have %d KiB of %d", (largest+1023)>>10, most>>10); {
	case largest > most:
		c.Add(id, Failed, "use fewer agents or subscriptions in one mesh", "%s", text)
	case largest > most/2:
		c.Add(id, Warned, "before it is full, use a second mesh", "%s", text)
	default:
		c.OK(id, "%s", text)
	}
}

// authority looks at the mesh's own certificate authority, if it has one.
func (c *Checkup) authority(state string) {
	const id = "ca"
	file := accounts.AuthorityFile(state)
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	ca, _, err := accounts.ReadAuthority(file)
	switch {
	case err != nil:
		c.Add(id, Failed, "restore "+filepath.Dir(file)+" from a backup, or remove it, and give agents the new certificate", "the mesh's certificate authority: %s", disk.Reason(err))
	case c.Now.After(ca.NotAfter):
		c.Add(id, Failed, "restart the mesh, which renews it, and give agents the new ca.pem", "the mesh's certificate authority expired at %s", tell.Moment(ca.NotAfter))
	case ca.NotAfter.Sub(c.Now) < accounts.AuthorityLife/3:
		c.Add(id, Warned, "restart the mesh, which renews it, and give agents the new ca.pem", "the mesh's certificate authority expires in %s", tell.Within(ca.NotAfter.Sub(c.Now)))
	default:
		c.OK(id, "the mesh's own authority is good until %s", tell.Moment(ca.NotAfter))
	}
}

// journalFiles looks whether what was signed is there, without opening it.
func (c *Checkup) journalFiles(state string) {
	const id = "journal"
	blocks, err := filepath.Glob(filepath.Join(server.StreamPattern(state, subjects.JournalStream), "msgs", "*"))
	signed, signedErr := os.Stat(filepath.Join(state, "tree", "checkpoints"))
	switch {
	case err == nil && len(blocks) == 0 && signedErr == nil && signed.Size() > 0:
		c.Add(id, Failed, "restore a backup: bcpmesh restore", "the journal is gone, but its checkpoints are there")
	case len(blocks) == 0:
		c.OK(id, "nothing has been decided yet")
	default:
		c.OK(id, "its files are there; a start, or bcpmesh audit verify, reads them")
	}
}

// JournalOnCluster compares the journal of a mesh on a cluster with what was signed of it next to the keys.
func (c *Checkup) JournalOnCluster(state string, of *status.Storage) {
	const id = "journal"
	switch signed, err := Tree(state).Reaches(); {
	case err != nil:
		c.Add(id, Failed, "restore tree/ and keys/ of a backup", "the checkpoints cannot be read: %s", err)
	case signed > of.Records && of.Begins == 0: // records that were cut off do not count
		c.Add(id, Failed, "find what set it back before anybody decides more: bcpmesh audit export --checkpoint says what was signed", "it ends with record %d, and %d were signed", of.Records, signed)
	case signed == 0:
		c.OK(id, "on the cluster, %s; nothing of it was signed yet", tell.Count(int(of.Records), "record"))
	default:
		c.OK(id, "on the cluster, %s, of which %d are signed", tell.Count(int(of.Records), "record"), signed)
	}
}

// newestFile finds the newest time that the mesh has written.
func (c *Checkup) newestFile(state string) {
	var newest time.Time
	what := state
	for _, pattern := range []string{"keys/state.json", "tree/checkpoints", "snapshots/*", server.ReadyFile, "accounts/*.jwt"} {
		files, _ := filepath.Glob(filepath.Join(state, filepath.FromSlash(pattern))) // the pattern is good
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.ModTime().After(newest) {
				newest, what = info.ModTime(), file
			}
		}
	}
	c.Clock(newest, "the time of "+what)
}

// skew is how far clocks may differ.
const skew = time.Minute

// Clock judges this machine's clock by times that were written before.
func (c *Checkup) Clock(newest time.Time, what string) {
	if ahead := newest.Sub(c.Now); ahead > skew {
		c.Add("clock", Failed, "set this machine's clock: creds and certificates depend on it, and the journal's time does not advance until then",
			"%s is %s in the future", what, tell.Within(ahead))
		return
	}
	c.OK("clock", "%s", tell.Moment(c.Now))
}

// Sealed looks at the TLS of a connection.
func (c *Checkup) Sealed(nc *nats.Conn) {
	const id = "tls"
	address := nc.ConnectedUrlRedacted() // one of those that were given
	state, err := nc.TLSConnectionState()
	if err != nil || len(state.PeerCertificates) == 0 {
		if u, err := url.Parse(address); err != nil || !guard.Loopback(u.Hostname()) {
			c.Add(id, Warned, "write tls:// or wss://; the operator starts the mesh with --tls", "%s has no TLS: messages can be read and changed on the way", address)
		}
		return
	}
	ends := state.PeerCertificates[0].NotAfter
	if left := ends.Sub(c.Now); left < 7*24*time.Hour {
		c.Add(id, Warned, "the operator renews it; bcpmesh renews its own by itself", "the certificate of %s expires in %s", address, tell.Within(left))
		return
	}
	c.OK(id, "%s, a certificate until %s", tls.VersionName(state.Version), tell.Moment(ends))
}

// connectPatience is how long a command may run before it is connected.
const connectPatience = 10 * time.Second

// Agents looks whether those are connected that the mesh starts.
func (c *Checkup) Agents(list []status.Agent) {
	const id = "agents"
	connected, fine := 0, true
	for i := range list {
		a := &list[i]
		if a.Failing != nil {
			c.Add("models", Failed, "bcpmesh doctor --model calls it, and shows what its provider says", "%s: %s", a.Agent, tell.ModelFails(a.Failing))
		}
		switch {
		case a.State == status.Connected:
			connected++
		case a.State == status.Crashed, a.State == status.Running && c.Now.Sub(a.Command.Since) > connectPatience:
			c.Add(id, Warned, "bcpmesh status shows what it printed last; run it by hand", "%s: %s", a.Agent, tell.Agent(a, c.Now))
			fine = false
		case a.State == status.Unavailable:
			c.Add(id, Failed, "bcpmesh status shows what it printed last; fix it, then bcpmesh reload", "%s: %s", a.Agent, tell.Agent(a, c.Now))
			fine = false
		}
	}
	if fine {
		c.OK(id, "%d of %s connected, and no command crashes", connected, tell.Count(len(list), "agent"))
	}
}

// Disk looks at the file system of a state folder on which no mesh runs.
func (c *Checkup) Disk(state string) {
	free, size, err := Disk(state)
	if err != nil {
		c.Add("disk", Warned, "", "the file system of %s cannot be measured: %s", strconv.Quote(state), disk.Reason(err))
		return
	}
	c.Storage(status.Storage{DiskFree: free, DiskSize: size})
}

// Storage looks at the room that a mesh has.
func (c *Checkup) Storage(s status.Storage) {
	const id, todo = "disk", "make room, raise max_disk_mb, or cut the journal: bcpmesh backup --truncate"
	var parts []string
	if s.DiskSize > 0 {
		parts = append(parts, fmt.Sprintf("%d MiB free", s.DiskFree>>20))
	}
	if s.JournalLimit > 0 {
		parts = append(parts, fmt.Sprintf("the journal has %d MiB of %d", s.Journal>>20, s.JournalLimit>>20))
	}
	text := strings.Join(parts, ", ")
	switch s.Alert() {
	case bcp.AlertDiskCritical:
		c.Add(id, Failed, todo, "%s", text)
	case bcp.AlertDiskLow:
		c.Add(id, Warned, todo, "%s", text)
	default:
		c.OK(id, "%s", text)
	}
}

// CredsEnd looks how long a creds file is good.
func (c *Checkup) CredsEnd(of *accounts.Holder) {
	const id, issue = "creds-expiry", "have the operator issue others: bcpmesh creds issue"
	switch {
	case of.Expires.IsZero():
		c.OK(id, "they never expire")
	case !c.Now.Before(of.Expires):
		c.Add(id, Failed, issue+"; or set this machine's clock", "they expired at %s", tell.Moment(of.Expires))
	case accounts.EndsSoon(of.Issued, of.Expires, c.Now):
		c.Add(id, Warned, issue, "they expire in %s", tell.Within(of.Expires.Sub(c.Now)))
	default:
		c.OK(id, "they expire in %s", tell.Within(of.Expires.Sub(c.Now)))
	}
}

// Versions says what runs here, this program in its version, and there if that is connected
// to (nil).
func (c *Checkup) Versions(nc *nats.Conn, program string) {
	const id = "versions"
	if nc != nil && release(nc.ConnectedServerVersion()) != release(server.NATSVersion) {
		c.Add(id, Warned, "run the same program on both sides, or restart the mesh with this one; on a cluster, upgrade the older nodes",
			"the mesh runs NATS server %s, this program has %s", nc.ConnectedServerVersion(), server.NATSVersion)
		return
	}
	c.OK(id, "bcpmesh %s, %s, NATS server %s", program, runtime.Version(), server.NATSVersion)
}

// release is a version without its patches, which differ in nothing that matters here.
func release(version string) string { return version[:max(0, strings.LastIndex(version, "."))] }
