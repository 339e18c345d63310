package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/attach"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// Up runs a mesh.
type Up struct {
	listening
	observed
	audit.WitnessFlags
	State                         string
	Rebuild, Seal, AcceptRollback bool
	Web                           string
}

// Adjust says what is logged.
func (o *Up) Adjust(*cobra.Command) { o.LogLevel.Value = "warn" }

// Run runs a mesh.
func (o *Up) Run(ctx context.Context, p *cli.Program, args []string) (err error) {
	if err := o.listening.check(); err != nil {
		return err
	}
	if err := o.observed.check(); err != nil {
		return err
	}
	peers, err := o.Peers("up")
	if err != nil {
		return err
	}
	folder, err := meshdir.Argument(args)
	if err != nil {
		return err
	}
	if o.State != "" {
		folder.State = o.State
	}
	def, err := folder.Load()
	if err != nil {
		return err
	}
	if err := mesh.CheckReplicas(def); err != nil {
		return cli.Failf("%s: %s", cli.Quoted(filepath.Join(folder.Dir, "mesh.yaml")), err).
			WithHint("set replicas: 1, or run bcpmesh gateway on a NATS cluster")
	}
	if folder.State, err = filepath.Abs(folder.State); err != nil {
		return cli.Failf("the state folder %s: %s", cli.Quoted(folder.State), cli.FileReason(err))
	}
	if err := meshdir.PrepareReady(o.ReadyFile); err != nil {
		return err
	}
	if info, err := os.Stat(folder.State); err == nil && !info.IsDir() {
		return cli.Failf("--state %s is not a folder", cli.Quoted(folder.State))
	}
	if err := meshdir.CheckKeys(folder.State); err != nil {
		return err
	}
	if err := meshdir.RequireSealed(folder.State, o.Seal, o.beyond()); err != nil {
		return err
	}
	commandsIn, err := filepath.Abs(folder.Dir)
	if err != nil {
		return cli.Failf("the folder %s: %s", cli.Quoted(folder.Dir), cli.FileReason(err))
	}
	// The mesh starts without commands that cannot be started, and starts them when they are there.
	_, report := folder.Here().Load(os.DirFS(folder.Dir))
	for _, e := range report.Errors {
		meshdir.TalkProblem(p, folder, "warning", e)
	}
	cli.IgnoreBrokenPipes()
	log := &startLog{to: p.Out.Stderr, held: o.level >= hclog.Warn}
	logger := cli.NewLogger(o.level, log)
	shows, known, err := o.secure(folder.State, logger.Named("tls"))
	if err != nil {
		return err
	}
	slow := time.AfterFunc(cli.StartPatience, func() {
		log.release()
		_, _ = io.WriteString(log, "still starting: the journal is long, or the state is damaged\n")
	})
	config := mesh.Config{
		Keys:       []accounts.OpenOption{meshdir.Unlock()},
		Definition: def, Load: folder.LoadRunning, Folder: commandsIn, Environ: os.Environ(), Builtin: attach.Keeper("run"), State: folder.State, Version: cli.ProgramVersion(),
		Listen: o.Listen, TLS: shows, CA: known.CA,
		Keeper: attach.Keeper(), Rebuild: o.Rebuild, Logger: logger, Witnesses: peers, AcceptRollback: o.AcceptRollback,
	}
	var pages *web.Server // nil without --web
	if o.Web != "" {      // its port is taken before anything is started
		if pages, err = listenAt(p, "--web", web.Config{Listen: o.Web}); err != nil {
			return err
		}
	}
	defer o.stop()
	if err := o.start(def, &config); err != nil {
		return err
	}
	m, err := launch(ctx, config)
	slow.Stop()
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended as it was asked to
		}
		return startFailure(err, o.listening, folder.State)
	}
	log.release()
	// The files go first: a mesh that starts when this one has let go of the
	// state writes its own.
	about := meshdir.Ready{URL: m.URL(), State: folder.State, PID: os.Getpid(), Trust: known}
	files := []string{server.ReadyOf(folder.State), o.ReadyFile}
	defer func() {
		for _, name := range files {
			meshdir.RemoveReady(name)
		}
		switch stopErr := stopMesh(m); {
		case errors.Is(stopErr, mesh.ErrDisplaced):
			err = cli.Failf("%s", mesh.ErrDisplaced).WithHint("what was recorded last is lost: restore a backup (bcpmesh restore BACKUP %s) or make a new mesh", cli.Plain(folder.Dir))
		case stopErr != nil:
			err = cli.Failf("the mesh did not stop cleanly: %s", errors.Join(err, stopErr))
		}
	}()
	if pages != nil {
		about.Web = pages.URL()
	}
	if err := o.announce(ctx, p, about, m, files, func() {
		p.Out.Talkf("%s serves %s and %s at %s", meshdir.MeshName(def), cli.Count(len(def.Agents), "agent"), cli.Count(len(def.Channels), "channel"), about.URL)
		p.Out.Talkf("state in %s", folder.State)
		if o.TLS {
			p.Out.Talkf("agents recognise it by %s: give it to them with their creds", about.CA)
		}
		p.Out.Talkf("issue credentials to an agent: bcpmesh creds issue AGENT --out AGENT.creds")
	}); err != nil {
		return err
	}
	keys.WarnOfExpiry(p.Out, keys.ExpiringIn(folder.State, def))
	failed, stop := serveWeb(ctx, pages, meshdir.StateFlags(folder))
	defer stop()
	select {
	case <-ctx.Done():
		return nil
	case <-m.Done():
	case err := <-failed:
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	return cli.Failf("the gateway stopped by itself")
}

// metricsFailure says why metrics are not served. The mesh does not go on
// without them: whoever asked for them would miss them when it counts.
func metricsFailure(err error, listen string) error {
	switch {
	case errors.Is(err, telemetry.ErrNotLoopback):
		return meshdir.BeyondLoopback("--metrics", listen)
	case meshdir.PortTaken(listen):
		return cli.Failf("--metrics %s: another program uses that port", cli.Quoted(listen)).WithHint("stop it, or take any free port: --metrics 127.0.0.1:0")
	}
	return cli.Failf("--metrics %s: %s", cli.Quoted(listen), cli.FileReason(err))
}

// launch starts a mesh that keeps running when ctx ends: it has to be stopped in
// order. A start that ctx interrupts is abandoned, and ends with the process.
func launch(ctx context.Context, config mesh.Config) (*mesh.Mesh, error) {
	type result struct {
		m   *mesh.Mesh
		err error
	}
	started := make(chan result, 1)
	go func() {
		m, err := mesh.Start(context.WithoutCancel(ctx), config)
		started <- result{m, err}
	}()
	select {
	case r := <-started:
		return r.m, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func stopMesh(m *mesh.Mesh) error {
	ctx, cancel := context.WithTimeout(context.Background(), cli.StopTimeout)
	defer cancel()
	return m.Stop(ctx)
}

// startLog holds the log back until the start is known to have worked: a
// failure is told in one line.
type startLog struct {
	mu    sync.Mutex
	to    io.Writer
	held  bool
	lines bytes.Buffer
}

// Write implements [io.Writer].
func (l *startLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		return l.lines.Write(b)
	}
	return l.to.Write(b)
}

func (l *startLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	// There is nowhere to report an error of stderr.
	_, _ = l.lines.WriteTo(l.to)
}

// startFaults are what commonly keeps a mesh from starting.
var startFaults = cli.Faults{
	{Of: server.ErrInUse, Says: "a mesh runs on {it} already", Hint: "stop it first, or name another folder with --state"},
	{Of: mesh.ErrRequireWitness, Says: notStarted, Hint: "name one: bcpmesh up --witness KEY=URL (docs/operators.md#witnesses)"},
	{Of: accounts.ErrBusy, Says: notStarted, Hint: "another command is using {path}: try again"},
	{Of: accounts.ErrUnsafe, Says: notStarted, Hint: "{path} must belong to you and be closed to others: chmod -R go= {path}"},
	{Of: jetstream.ErrBase, Says: notStarted, Hint: client.BaseHint},
	{Of: jetstream.ErrFull, Says: notStarted, Hint: "bcpmesh backup --truncate makes room, or a larger max_disk_mb"},
	{Of: jetstream.ErrLost, Says: notStarted, Hint: recordsAway}, // the next start tries again to read them
	{Of: jetstream.ErrMissing, Says: notStarted, Hint: recordsAway},
	{Of: jetstream.ErrRewritten, Says: notStarted, Hint: "it is not the journal that was signed: restore the newest backup, and compare with an earlier export"},
	{Of: jetstream.ErrTree, Says: notStarted, Hint: "move {path}/tree away: it is rebuilt from the journal; a backup has the earlier checkpoints"},
	{Of: jetstream.ErrUncertain, Says: notStarted, Hint: diskFails},
	{Of: server.ErrStreams, Says: notStarted, Hint: diskFails},
	{Of: syscall.ENOSPC, Says: notStarted, Hint: diskFails},
	{Of: syscall.EIO, Says: notStarted, Hint: diskFails},
	{Of: gateway.ErrPanic, Says: notStarted, Hint: "nobody was served and the journal is unchanged: start the version of bcpmesh that wrote it, and report the log to the authors"},
	{Of: state.ErrReplay, Says: notStarted, Hint: otherJournal},
	{Of: jetstream.ErrRecord, Says: notStarted, Hint: otherJournal},
}

const (
	notStarted   = "the mesh does not start: {why}"
	recordsAway  = "the disk of {path} could not be read, or records were removed: start again; if they stay away, bcpmesh restore takes a backup, or what bcpmesh backup --salvage makes of it: lost charges and releases happen again"
	diskFails    = "the disk of {path} is full or fails, or too many files are open: fix that, and start again"
	otherJournal = "the journal was written by another version, or was changed: bcpmesh restore takes a backup, or what bcpmesh backup --salvage makes of it"
)

// startFailure says what to do about what keeps a mesh from starting.
func startFailure(err error, l listening, folder string) error {
	switch {
	case errors.Is(err, server.ErrPlaintext):
		return meshdir.BeyondLoopback("--listen", l.Listen)
	case l.Listen != "" && !errors.Is(err, server.ErrInUse) && meshdir.PortTaken(l.Listen):
		return cli.Failf("--listen %s: another program uses that port", cli.Quoted(l.Listen)).WithHint("stop it, or listen on any free port: --listen 127.0.0.1:0")
	}
	if known := startFaults.Failure(err, folder); known != nil {
		return known
	}
	return cli.Failf("the mesh does not start: %s", err).WithHint("the state folder is %s; --state names another", folder)
}

// serveWeb serves pages about the mesh that runs in a folder until ctx ends or stop is
// called; none without a server.
func serveWeb(ctx context.Context, server *web.Server, where meshdir.StateFlags) (failed <-chan error, stop func()) {
	failures := make(chan error, 1)
	if server == nil {
		return failures, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	served.Go(func() {
		if err := (&source{client.Flags{Where: where}}).serve(ctx, server); err != nil && ctx.Err() == nil {
			failures <- err
		}
	})
	return failures, func() { cancel(); served.Wait() }
}
