package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/accounts/durable"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/gateway"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

// Where a mesh keeps its state beside its definitions, and what a running one
// leaves there for the client commands to find it.
const (
	stateFolder = ".bcpmesh"
	readyName   = "mesh.json"
)

const (
	// stopTimeout is how long a clean end may take.
	stopTimeout = 20 * time.Second
	// startPatience is how long a start may take without a word.
	startPatience = 10 * time.Second
)

// ready is what a running mesh tells about itself: in the ready file, and in
// the state folder for the client commands.
type ready struct {
	URL     string `json:"url"`
	State   string `json:"state"`
	PID     int    `json:"pid"`
	Metrics string `json:"metrics,omitempty"` // where they are, if they are served
	Traces  string `json:"traces,omitempty"`  // where they go, if they are sent
	// WebSocket is where agents connect over it, if they can.
	WebSocket string `json:"websocket,omitempty"`
	// Cluster says that the mesh is on a cluster, and has no process here.
	Cluster bool `json:"cluster,omitzero"`
	trust
}

// alive reports whether the mesh may still be there.
func (r ready) alive() bool { return r.Cluster || alive(r.PID) }

// upOptions are the flags of up.
type upOptions struct {
	listening
	observed
	state, readyFile string
	watch, rebuild   bool
	seal             bool
	level            hclog.Level
}

func upCommand(p *program) *cobra.Command {
	var o upOptions
	level := &wordFlag{value: "warn", words: []string{"debug", "info", "warn", "error"}}
	cmd := &cobra.Command{
		Use:   "up [DIR]",
		Short: "Run the mesh of a folder: server, gateway, journal, audit",
		Long: `Run the mesh that a folder declares, until interrupted: the NATS server, the
gateway, the journal, the ledger and the audit.

Agents connect with the files that "bcpmesh creds issue" makes. Everything that
the mesh knows is in its state folder: start it again there and it goes on.
It listens on this machine only, unless --listen or --websocket says otherwise:
that needs TLS. --tls makes a certificate under an authority of the mesh's own,
whose certificate agents need beside their creds. A certificate of your own
(--tls-cert, --tls-key) is read again when its files change. The keys of a mesh
that listens beyond this machine have to be under a passphrase: --seal.

Edited definitions hold after "bcpmesh reload", or, with --watch, as soon as they
are saved.

With --rebuild, the audit and the ledger are deleted and filled again from the
journal, which is the truth and stays as it is.

With --metrics, Prometheus can scrape /metrics there, and /healthz says whether
the gateway answers. Keep agents from that port: metrics show what a Controller
must not know of its Readers.

With --traces, a trace of each query and push goes to an OpenTelemetry collector,
over OTLP/HTTP: who, when, verdicts and bits, never what was said. The variables
OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS and _CERTIFICATE do the same. Traces leave
this machine over https only; keep agents from the collector, as from metrics.`,
		Example: `  bcpmesh up
  bcpmesh up --watch
  bcpmesh up --metrics 127.0.0.1:9464 --traces http://127.0.0.1:4318
  bcpmesh up --listen 0.0.0.0:4222 --tls --tls-name mesh.example.org
  bcpmesh up ./office --listen 127.0.0.1:4222 --ready-file /run/office.json`,
		Args:              arguments(0, "DIR"),
		ValidArgsFunction: completeFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.level, o.measured = hclog.LevelFromString(level.value), cmd.Flags().Changed("metrics")
			return up(cmd.Context(), p, args, o)
		},
	}
	o.listening.addTo(cmd)
	cmd.Flags().StringVar(&o.state, "state", "", "`DIR` of keys, journal and audit (default DIR/.bcpmesh)")
	cmd.Flags().StringVar(&o.readyFile, "ready-file", "", "write {url, state, pid, …} to `FILE` once everything serves")
	cmd.Flags().BoolVar(&o.seal, "seal", false, "put the keys under a passphrase, if they are not yet")
	cmd.Flags().BoolVar(&o.watch, "watch", false, "load the definitions whenever they are edited")
	cmd.Flags().BoolVar(&o.rebuild, "rebuild", false, "make audit and ledger again")
	o.observed.addTo(cmd)
	level.addTo(cmd, "log-level", "what to log on stderr")
	complete(cmd, "state", completeFolders)
	return cmd
}

func up(ctx context.Context, p *program, args []string, o upOptions) (err error) {
	if err := o.listening.check(); err != nil {
		return err
	}
	if err := o.observed.check(p); err != nil {
		return err
	}
	folder, err := meshArgument(args)
	if err != nil {
		return err
	}
	if o.state != "" {
		folder.state = o.state
	}
	def, err := folder.load()
	if err != nil {
		return err
	}
	if err := mesh.CheckReplicas(def); err != nil {
		return failf("%s: %s", quoted(filepath.Join(folder.dir, "mesh.yaml")), err).
			withHint("set replicas: 1, or run bcpmesh gateway on a NATS cluster")
	}
	if folder.state, err = filepath.Abs(folder.state); err != nil {
		return failf("the state folder %s: %s", quoted(folder.state), reasonOf(err))
	}
	if err := prepareReady(o.readyFile); err != nil {
		return err
	}
	if info, err := os.Stat(folder.state); err == nil && !info.IsDir() {
		return failf("--state %s is not a folder", quoted(folder.state))
	}
	if err := checkKeys(folder.state); err != nil {
		return err
	}
	if err := requireSealed(folder.state, o.seal, o.reachable()); err != nil {
		return err
	}
	commandsIn, err := filepath.Abs(folder.dir)
	if err != nil {
		return failf("the folder %s: %s", quoted(folder.dir), reasonOf(err))
	}
	for _, exposed := range o.exposed() {
		p.out.talkf("WARNING: %s --insecure-plaintext: whoever is on the way reads and changes what agents say", exposed)
	}
	folder.warnOfCommands(p)
	ignoreBrokenPipes()
	log := &startLog{to: p.out.stderr, held: o.level >= hclog.Warn}
	logger := newLogger(o.level, log)
	shows, known, err := o.tls(folder.state, logger.Named("tls"))
	if err != nil {
		return err
	}
	slow := time.AfterFunc(startPatience, func() {
		log.release()
		_, _ = io.WriteString(log, "still starting: the journal is long, or the state is damaged\n")
	})
	config := mesh.Config{
		Keys:       []accounts.OpenOption{unlock()},
		Definition: def, Load: folder.loadRunning, Folder: commandsIn, Environ: os.Environ(), State: folder.state, Version: programVersion(),
		Listen: o.address, WebSocket: o.webSocket, TLS: shows, CA: known.CA, AllowNetworkWithoutTLS: o.plaintext,
		Rebuild: o.rebuild, Logger: logger,
	}
	defer o.stop()
	looks, err := o.start(def, logger)
	if err != nil {
		return err
	}
	config.OnDecision, config.OnReload = looks.decision, looks.reload
	m, err := launch(ctx, config)
	slow.Stop()
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended as it was asked to
		}
		return startFailure(err, o.listening, folder.state)
	}
	log.release()
	// The files go first: a mesh that starts when this one has let go of the
	// state writes its own.
	about := ready{URL: m.URL(), WebSocket: m.WebSocketURL(), State: folder.state, PID: os.Getpid(), trust: known}
	files := []string{filepath.Join(folder.state, readyName), o.readyFile}
	defer func() {
		for _, name := range files {
			_ = os.Remove(name)
		}
		if stopErr := stopMesh(m); stopErr != nil {
			err = failf("the mesh did not end well: %s", errors.Join(err, stopErr))
		}
	}()
	if err := o.observed.serve(ctx, &about, m); err != nil {
		return err
	}
	for _, name := range files {
		if err := writeReady(name, about); err != nil {
			return failf("%s cannot be written: %s", quoted(name), reasonOf(err))
		}
	}
	if p.out.json {
		if err := p.out.line(about); err != nil {
			return err
		}
	} else {
		p.out.talkf("%s serves %s and %s at %s", meshName(def), count(len(def.Agents), "agent"), count(len(def.Channels), "channel"), about.URL)
		if about.WebSocket != "" {
			p.out.talkf("over WebSocket at %s", about.WebSocket)
		}
		p.out.talkf("state in %s", folder.state)
		if o.ownTLS {
			p.out.talkf("agents know it by %s: give it to them with their creds", about.CA)
		}
		if about.Metrics != "" {
			p.out.talkf("metrics at %s", about.Metrics)
		}
		if about.Traces != "" {
			p.out.talkf("traces go to %s", plain(about.Traces))
		}
		p.out.talkf("give an agent its credentials: bcpmesh creds issue AGENT --out AGENT.creds")
	}
	p.out.warnOfExpiry(expiringIn(folder.state, def))
	if err := p.out.stdout.Flush(); err != nil {
		return failf("the result cannot be written: %s", reasonOf(err))
	}

	watching := make(chan error, 1)
	if o.watch {
		watch, cancel := context.WithCancel(ctx)
		defer func() { cancel(); <-watching }()
		go func() { watching <- folder.watch(watch, p, m) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-m.Done():
	case err := <-watching:
		watching <- nil
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	return failf("the gateway ended by itself")
}

// warnOfCommands tells which commands cannot be started. The mesh starts without them:
// it serves the others, and starts them when they are there.
func (m meshFolder) warnOfCommands(p *program) {
	_, report := definition.Load(os.DirFS(m.dir), m.commands())
	for _, e := range report.Errors {
		p.talkProblem(m, "warning", e)
	}
}

// both returns a function that calls one, if there is one, and then another.
func both[T any](first, second func(T)) func(T) {
	if first == nil {
		return second
	}
	return func(v T) {
		first(v)
		second(v)
	}
}

// metricsFailure says why metrics are not served. The mesh does not go on
// without them: whoever asked for them would miss them when it counts.
func metricsFailure(err error, listen string) error {
	switch {
	case errors.Is(err, telemetry.ErrNotLoopback):
		return beyondLoopback("--metrics", listen)
	case portTaken(listen):
		return failf("--metrics %s: another program has that port", quoted(listen)).withHint("stop it, or take any free port: --metrics 127.0.0.1:0")
	}
	return failf("--metrics %s: %s", quoted(listen), reasonOf(err))
}

func stopMetrics(s *telemetry.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Stop(ctx) // what is scraped now is lost, and nothing else
}

// checkKeys refuses a state that has lost its keys: with new ones the mesh would
// not find its journal, and begin another without a word.
func checkKeys(state string) error {
	if _, err := os.Stat(filepath.Join(state, "jetstream")); err != nil {
		return nil // a new state, or one for the mesh to judge
	}
	if _, err := accounts.Open(state); errors.Is(err, fs.ErrNotExist) {
		return failf("the state folder %s holds a journal, and not its keys", quoted(state)).
			withHint("restore the keys from a backup, or start with a new --state")
	}
	return nil
}

// launch starts a mesh that goes on when ctx ends: it has to be stopped in
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
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return m.Stop(ctx)
}

// ignoreBrokenPipes makes writing to a pipe that nobody reads an error, where
// it would otherwise end the program on the spot, with its traces left behind.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }

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

// meshName names a mesh in a sentence; "mesh" is the name of one that has none.
func meshName(def *bcp.Mesh) string {
	if def.Name == "mesh" {
		return "the mesh"
	}
	return "mesh " + def.Name
}

// startFailure says what to do about what commonly keeps a mesh from starting.
func startFailure(err error, l listening, state string) error {
	f := failf("the mesh does not start: %s", err)
	switch {
	case errors.Is(err, server.ErrInUse):
		return failf("a mesh runs on %s already", quoted(state)).withHint("stop it first, or name another folder with --state")
	case errors.Is(err, server.ErrPlaintext):
		return beyondLoopback("--listen", l.address)
	case l.address != "" && portTaken(l.address):
		return failf("--listen %s: another program has that port", quoted(l.address)).withHint("stop it, or listen on any free port: --listen 127.0.0.1:0")
	case l.webSocket != "" && portTaken(l.webSocket):
		return failf("--websocket %s: another program has that port", quoted(l.webSocket)).withHint("stop it, or listen on any free port: --websocket 127.0.0.1:0")
	case errors.Is(err, accounts.ErrBusy):
		return f.withHint("another command works on %s: try again", state)
	case errors.Is(err, bcp.ErrMoved):
		return f.withHint("these keys are of a mesh of several shards, which bcpmesh gateway serves on a cluster; a mesh of one process needs keys of its own: name another folder with --state")
	case errors.Is(err, accounts.ErrUnsafe):
		return f.withHint("%s must belong to you and be closed to others: chmod -R go= %s", state, state)
	case errors.Is(err, jetstream.ErrBase):
		return f.withHint(baseHint)
	case errors.Is(err, jetstream.ErrFull):
		return f.withHint("bcpmesh backup --truncate makes room, or a larger max_disk_mb")
	case errors.Is(err, jetstream.ErrLost), errors.Is(err, jetstream.ErrMissing): // the next start tries again to read them
		return f.withHint("the disk of %s could not be read, or records were removed: start again; if they stay away, bcpmesh restore takes a backup, or what bcpmesh backup --salvage makes of it: what was lost is charged again, and said again", state)
	case errors.Is(err, jetstream.ErrRewritten):
		return f.withHint("it is not the journal that was signed: restore the newest backup, and compare with an earlier export")
	case errors.Is(err, jetstream.ErrTree):
		return f.withHint("move %s away: it is made again from the journal; a backup has the earlier checkpoints", filepath.Join(state, "tree"))
	case errors.Is(err, jetstream.ErrUncertain), errors.Is(err, server.ErrStreams), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EIO):
		return f.withHint("the disk of %s is full or fails, or too many files are open: look after it, and start again", state)
	case errors.Is(err, gateway.ErrPanic):
		return f.withHint("nobody was served and the journal is as it was: start the version of bcpmesh that wrote it, and tell the authors what the log says")
	case errors.Is(err, bcp.ErrReplay), errors.Is(err, jetstream.ErrRecord):
		return f.withHint("the journal was written by another version, or was changed: bcpmesh restore takes a backup, or what bcpmesh backup --salvage makes of it")
	}
	return f.withHint("the state folder is %s; --state names another", state)
}

// portTaken looks whether that is why a server did not start.
func portTaken(listen string) bool {
	l, err := net.Listen("tcp", listen)
	if err == nil {
		_ = l.Close() // it was only tried
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// prepareReady refuses a ready file that could not be written, and removes the
// one of a mesh that was killed, so that nobody takes it for ours.
func prepareReady(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent, err := os.Stat(filepath.Dir(path))
		if err == nil && !parent.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return failf("--ready-file %s: its folder: %s", quoted(path), reasonOf(err))
		}
		return nil
	case err != nil:
		return failf("--ready-file %s: %s", quoted(path), reasonOf(err))
	case !info.Mode().IsRegular():
		return failf("--ready-file %s is there, and is not a file", quoted(path))
	}
	if about, err := readReady(path); err == nil && !alive(about.PID) {
		_ = os.Remove(path) // it is written anew in any case
	}
	return nil
}

// alive reports whether a process with this number is there, ours or not.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	return !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// readReady reads what writeReady wrote.
func readReady(path string) (ready, error) {
	content, err := readSmall(path)
	if err != nil {
		return ready{}, err
	}
	var about ready
	return about, json.Unmarshal(content, &about, json.RejectUnknownMembers(true))
}

// writeReady writes the file whole or not at all.
func writeReady(path string, about ready) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(about)
	if err != nil {
		return err
	}
	return durable.Replace(path, append(b, '\n'), 0o600)
}
