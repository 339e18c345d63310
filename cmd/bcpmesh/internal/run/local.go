package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// local looks at the mesh of a folder. What needs a running one is left out where
// it rests.
func (c *checkup) local(ctx context.Context, where meshdir.StateFlags, folder meshdir.Folder) {
	var def *bcp.Mesh
	if folder.Dir != "" {
		def = c.definitions(folder)
		c.commands(folder, def)
		c.notify(folder, def)
	}
	if _, err := os.Stat(folder.State); errors.Is(err, fs.ErrNotExist) {
		c.versions(nil)
		c.ok("reachability", "the mesh has never run: there is no %s", folder.State)
		return
	}
	c.modes(folder.State)
	if !c.keys(folder.State, def) {
		c.versions(nil)
		return
	}
	if onCluster(folder.State) {
		c.ok("resolver", "the claims are those of the cluster, which a gateway checks before it decides")
	} else {
		c.resolver(folder.State, def)
		c.journalFiles(folder.State)
	}
	c.authority(folder.State)
	c.newestFile(folder.State)
	nc := c.running(ctx, where, folder)
	c.versions(nc)
	if nc == nil {
		c.checkDisk(folder.State)
	}
}

// onCluster reports whether the journal is on a cluster: the accounts were given to one,
// and no server of this machine has streams of the mesh.
func onCluster(state string) bool {
	_, err := os.Stat(server.StreamsOf(state))
	return err != nil && meshdir.WasExported(state)
}

func (c *checkup) definitions(folder meshdir.Folder) *bcp.Mesh {
	const id = "definitions"
	def, err := folder.Load()
	if err != nil {
		c.add(id, failed, "bcpmesh check "+folder.Dir, "%s", err)
		return nil
	}
	c.ok(id, "%s and %s", cli.Count(len(def.Agents), "agent"), cli.Count(len(def.Channels), "channel"))
	return def
}

// commands looks whether the commands of agents can be started, and what confines them.
func (c *checkup) commands(folder meshdir.Folder, def *bcp.Mesh) {
	const id = "commands"
	if def == nil {
		return
	}
	var unconfined []string
	commands := 0
	for _, a := range def.Agents {
		if a.Supervised() {
			commands++
		}
		if a.Sandbox == bcp.SandboxNone {
			unconfined = append(unconfined, string(a.Name))
		}
	}
	if commands == 0 {
		return
	}
	_, report := folder.Here().Load(os.DirFS(folder.Dir))
	for _, e := range report.Errors {
		c.add(id, failed, "fix it, then bcpmesh reload", "%s", e)
	}
	if len(unconfined) > 0 {
		c.add(id, warned, "have agents that read hostile text confined by `sandbox: required`, or start them through sudo -u, docker, bwrap or the like, with `sandbox: own`", "nothing confines the commands of %s, which can read the keys and the journal", cli.FirstNames(unconfined, 3))
	}
	if len(report.Errors) == 0 && len(unconfined) == 0 {
		c.ok(id, "%s can be started, and are confined", cli.Count(commands, "command"))
	}
}

// modes looks for what others may read or write: the state is its owner's alone.
func (c *checkup) modes(state string) {
	const id = "state-mode"
	if runtime.GOOS == "windows" {
		c.ok(id, "this system has no file modes")
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
		c.add(id, failed, "only you may read the state folder, and you must be able to", "%s cannot be read: %s", cli.Quoted(state), cli.FileReason(err))
	case len(open) > 0:
		slices.Sort(open)
		c.add(id, failed, "chmod -R go= "+state+"; if somebody else could read keys, rotate them", "others may access %s", cli.FirstNames(open, 3))
	default:
		c.ok(id, "only you can access %s", state)
	}
}

func (c *checkup) keys(state string, def *bcp.Mesh) bool {
	const id = "keys"
	store, err := accounts.Open(state)
	if err != nil {
		c.fault(id, meshdir.KeysFailure(err, state))
		return false
	}
	c.ok(id, "those of the operator, the accounts and the gateway are there")
	users, err := store.Users()
	if err != nil {
		c.add("creds-expiry", failed, "restore the keys from a backup", "%s", err)
		return true
	}
	c.expiry(users, def)
	return true
}

// expiry looks for agents of which no creds are good any more, or not for long.
func (c *checkup) expiry(users []accounts.User, def *bcp.Mesh) {
	const id = "creds-expiry"
	over, soon, parties := keys.Expiring(users, def, c.now)
	switch {
	case len(over) > 0:
		c.add(id, warned, "bcpmesh creds issue AGENT --out FILE", "the last creds have expired: %s", cli.FirstNames(over, 3))
	case len(soon) > 0:
		c.add(id, warned, "bcpmesh creds issue AGENT --out FILE", "the last creds expire soon: %s", cli.FirstNames(soon, 3))
	default:
		c.ok(id, "%d parties have creds that do not expire soon", parties)
	}
}

// resolver reads the claims that the server was given last, and compares what it enforces with the definitions.
func (c *checkup) resolver(state string, def *bcp.Mesh) {
	files, err := filepath.Glob(filepath.Join(state, "accounts", "*.jwt"))
	if err != nil || len(files) == 0 {
		c.ok("resolver", "no claims yet: the first start makes them")
		return
	}
	enforced, largest := map[string]string{}, 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		var account *jwt.AccountClaims
		if err == nil {
			account, err = jwt.DecodeAccountClaims(string(content))
		}
		if err != nil {
			c.add("resolver", failed, "restart the mesh: it rewrites them", "the claims in %s are damaged: %s", filepath.Base(file), cli.FileReason(err))
			return
		}
		largest = max(largest, len(content))
		for _, key := range account.SigningKeys {
			if scope, ok := key.(*jwt.UserScope); ok {
				enforced[scope.Role] = granted(scope.Template.Pub.Allow, scope.Template.Sub.Allow)
			}
		}
	}
	c.ok("resolver", "claims of %s", cli.Count(len(files), "account"))
	c.size(largest)
	if def == nil {
		return
	}
	var differ []string
	for _, s := range subjects.Permissions(def) {
		if enforced[s.Role.String()+"-"+string(s.Agent)] != granted(s.PubAllow, s.SubAllow) {
			differ = append(differ, string(s.Agent)+" as "+s.Role.String())
		}
	}
	if len(differ) > 0 {
		c.add("permissions", warned, "bcpmesh reload, or a start, applies the definitions", "the server's permissions differ from the definitions for %s", cli.FirstNames(differ, 3))
		return
	}
	c.ok("permissions", "the server has what the definitions say")
}

// size judges the largest account's claims: beyond 1 MiB nobody connects.
func (c *checkup) size(largest int) {
	const id, most = "jwt-size", accounts.MaxAccountJWT
	switch text := fmt.Sprintf("the largest account's claims have %d KiB of %d", (largest+1023)>>10, most>>10); {
	case largest > most:
		c.add(id, failed, "use fewer agents or subscriptions in one mesh", "%s", text)
	case largest > most/2:
		c.add(id, warned, "before it is full, use a second mesh", "%s", text)
	default:
		c.ok(id, "%s", text)
	}
}

func granted(publish, subscribe []string) string {
	publish, subscribe = slices.Clone(publish), slices.Clone(subscribe)
	slices.Sort(publish)
	slices.Sort(subscribe)
	return strings.Join(publish, " ") + " / " + strings.Join(subscribe, " ")
}

// authority looks at the mesh's own certificate authority, if it has one.
func (c *checkup) authority(state string) {
	const id = "ca"
	file := accounts.AuthorityFile(state)
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return
	}
	ca, _, err := accounts.ReadAuthority(file)
	switch {
	case err != nil:
		c.add(id, failed, "restore "+filepath.Dir(file)+" from a backup, or remove it, and give agents the new certificate", "the mesh's certificate authority: %s", cli.FileReason(err))
	case c.now.After(ca.NotAfter):
		c.add(id, failed, "restart the mesh, which renews it, and give agents the new ca.pem", "the mesh's certificate authority expired at %s", cli.Moment(ca.NotAfter))
	case ca.NotAfter.Sub(c.now) < accounts.AuthorityLife/3:
		c.add(id, warned, "restart the mesh, which renews it, and give agents the new ca.pem", "the mesh's certificate authority expires in %s", client.Within(ca.NotAfter.Sub(c.now)))
	default:
		c.ok(id, "the mesh's own authority is good until %s", cli.Moment(ca.NotAfter))
	}
}

// journalFiles looks whether what was signed is there, without opening it.
func (c *checkup) journalFiles(state string) {
	const id = "journal"
	blocks, err := filepath.Glob(filepath.Join(server.StreamPattern(state, subjects.JournalStream), "msgs", "*"))
	signed, signedErr := os.Stat(filepath.Join(state, "tree", "checkpoints"))
	switch {
	case err == nil && len(blocks) == 0 && signedErr == nil && signed.Size() > 0:
		c.add(id, failed, "restore a backup: bcpmesh restore", "the journal is gone, but its checkpoints are there")
	case len(blocks) == 0:
		c.ok(id, "nothing has been decided yet")
	default:
		c.ok(id, "its files are there; a start, or bcpmesh audit verify, reads them")
	}
}

// journalOnCluster compares the journal with what was signed of it next to the keys.
func (c *checkup) journalOnCluster(state string, of *status.Storage) {
	const id = "journal"
	switch signed, err := mesh.Tree(state).Reaches(); {
	case err != nil:
		c.add(id, failed, "restore tree/ and keys/ of a backup", "the checkpoints cannot be read: %s", err)
	case signed > of.Records && of.Begins == 0: // records that were cut off do not count
		c.add(id, failed, "find what set it back before anybody decides more: bcpmesh audit export --checkpoint says what was signed", "it ends with record %d, and %d were signed", of.Records, signed)
	case signed == 0:
		c.ok(id, "on the cluster, %s; nothing of it was signed yet", cli.Count(int(of.Records), "record"))
	default:
		c.ok(id, "on the cluster, %s, of which %d are signed", cli.Count(int(of.Records), "record"), signed)
	}
}

// newestFile finds the newest time that the mesh has written.
func (c *checkup) newestFile(state string) {
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
	c.clock(newest, "the time of "+what)
}

// running looks at a mesh that runs; the connection is closed when the program
// ends.
func (c *checkup) running(ctx context.Context, where meshdir.StateFlags, folder meshdir.Folder) *nats.Conn {
	const id = "reachability"
	about, err := folder.Running()
	if err != nil {
		if _, statErr := os.Stat(server.ReadyOf(folder.State)); errors.Is(statErr, fs.ErrNotExist) {
			if onCluster(folder.State) {
				c.add(id, warned, "bcpmesh accounts push saves it for the commands that have the keys", "the address of the mesh's cluster is not known")
			} else {
				c.ok(id, "the mesh does not run")
			}
		} else {
			c.add(id, failed, "start the mesh again", "%s", err)
		}
		return nil
	}
	if !about.Alive() {
		c.add(id, failed, "restart it: it resumes where it was", "the mesh was killed")
		return nil
	}
	o, err := (&client.Flags{Where: where}).Connect(ctx, bcp.RoleOperator)
	if err != nil {
		c.fault(id, err)
		return nil
	}
	c.ok(id, "it answers at %s", about.URL)
	c.sealed(o.NATS())
	storage, err := o.Operator().Storage(ctx)
	switch {
	case err != nil:
		c.add("gateway", failed, "check the log of the mesh, and its disk", "the gateway does not answer: %s", err)
	case storage.Closed != "":
		c.fault("gateway", closedFailure(storage.Closed))
	default:
		c.ok("gateway", "it decides; %d records in the journal", storage.Records)
	}
	if err == nil {
		if onCluster(folder.State) {
			c.journalOnCluster(folder.State, &storage)
		}
		c.storage(storage)
	}
	c.agents(ctx, o)
	return o.NATS()
}

// sealed looks at the TLS of a connection.
func (c *checkup) sealed(nc *nats.Conn) {
	const id = "tls"
	address := nc.ConnectedUrlRedacted() // one of those that were given
	state, err := nc.TLSConnectionState()
	if err != nil || len(state.PeerCertificates) == 0 {
		if u, err := url.Parse(address); err != nil || !guard.Loopback(u.Hostname()) {
			c.add(id, warned, "write tls:// or wss://; the operator starts the mesh with --tls", "%s has no TLS: messages can be read and changed on the way", address)
		}
		return
	}
	ends := state.PeerCertificates[0].NotAfter
	if left := ends.Sub(c.now); left < 7*24*time.Hour {
		c.add(id, warned, "the operator renews it; bcpmesh renews its own by itself", "the certificate of %s expires in %s", address, client.Within(left))
		return
	}
	c.ok(id, "%s, a certificate until %s", tls.VersionName(state.Version), cli.Moment(ends))
}

// connectPatience is how long a command may run before it is connected.
const connectPatience = 10 * time.Second

// agents looks whether those are connected that the mesh starts.
func (c *checkup) agents(ctx context.Context, o *client.Client) {
	const id = "agents"
	list, err := o.Operator().Agents(ctx)
	if err != nil {
		return // the gateway's own check says so
	}
	connected, fine := 0, true
	for i := range list {
		a := &list[i]
		if a.Failing != nil {
			c.add("models", failed, "bcpmesh doctor --model calls it, and shows what its provider says", "%s: %s", a.Agent, tell.ModelFails(a.Failing))
		}
		switch {
		case a.State == status.Connected:
			connected++
		case a.State == status.Crashed, a.State == status.Running && c.now.Sub(a.Command.Since) > connectPatience:
			c.add(id, warned, "bcpmesh status shows what it printed last; run it by hand", "%s: %s", a.Agent, tell.Agent(a, c.now))
			fine = false
		case a.State == status.Unavailable:
			c.add(id, failed, "bcpmesh status shows what it printed last; fix it, then bcpmesh reload", "%s: %s", a.Agent, tell.Agent(a, c.now))
			fine = false
		}
	}
	if fine {
		c.ok(id, "%d of %s connected, and no command crashes", connected, cli.Count(len(list), "agent"))
	}
}

func (c *checkup) checkDisk(state string) {
	free, size, err := mesh.Disk(state)
	if err != nil {
		c.add("disk", warned, "", "the file system of %s cannot be measured: %s", cli.Quoted(state), cli.FileReason(err))
		return
	}
	c.storage(status.Storage{DiskFree: free, DiskSize: size})
}

func (c *checkup) storage(s status.Storage) {
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
		c.add(id, failed, todo, "%s", text)
	case bcp.AlertDiskLow:
		c.add(id, warned, todo, "%s", text)
	default:
		c.ok(id, "%s", text)
	}
}
