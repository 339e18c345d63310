package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// statusSpan is how far back status counts pushes.
const statusSpan = 24 * time.Hour

// meshStatus is what status shows.
type meshStatus struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	// Unwritable says that the mesh runs and decides nothing: its journal cannot be written.
	Unwritable bool         `json:"unwritable,omitzero"`
	URL        string       `json:"url,omitempty"`
	State      string       `json:"state"`
	PID        int          `json:"pid,omitzero"`
	Agents     int          `json:"agents"`
	Channels   int          `json:"channels"`
	Decided    uint64       `json:"decisions"`
	Last       time.Time    `json:"last_decision,omitzero"`
	Storage    *bcp.Storage `json:"storage,omitempty"`  // of a mesh on one shard that runs and decides
	Expiring   []string     `json:"expiring,omitempty"` // whose last creds expire soon
	// AgentStatus is how each agent is, of a mesh that runs.
	AgentStatus []sharded[bcp.AgentStatus] `json:"agent_status,omitempty"`
	Held        []sharded[bcp.Item]        `json:"held"`
	Ledger      []sharded[bcp.LedgerLine]  `json:"ledger"`
	Pushes      []sharded[bcp.PushCount]   `json:"pushes"` // of the last day, by subscription
	// Shards are those of several that answer; the figures above are their sums.
	Shards []sharded[shardStatus] `json:"shards,omitempty"`
}

// shardStatus is what one shard says.
type shardStatus struct {
	Decided uint64       `json:"decisions"`
	Last    time.Time    `json:"last_decision,omitzero"`
	Storage *bcp.Storage `json:"storage"`

	agents []bcp.AgentStatus
	held   []bcp.Item
	ledger []bcp.LedgerLine
	pushes []bcp.PushCount
}

func statusCommand(p *program) *cobra.Command {
	var who clientFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the mesh runs, what waits and what is spent",
		Long: `Show the mesh of the current folder: whether it runs and where, how much it has
decided and how full its disk is, how each agent is, what waits for a person, and
what the channels have spent.

An agent is connected, or it is said why it is not: its command crashed, with how
it ended, what it printed last, and when it is started again; or somebody else
starts it. What an agent printed is its own text and not to be trusted.

The exit code is 0 when it runs and 1 when it does not, or cannot write its
journal. Of a mesh of several shards it is 4 where some do not answer.`,
		Example: `  bcpmesh status
  bcpmesh status --dir ./office --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			return status(ctx, p, &who)
		},
	}
	who.shard.addTo(cmd, ofPeople)
	who.where.addTo(cmd)
	return cmd
}

func status(ctx context.Context, p *program, who *clientFlags) error {
	folder, err := who.where.folder()
	if err != nil {
		return err
	}
	def, err := folder.load()
	if err != nil {
		return err
	}
	s := meshStatus{Name: def.Name, State: folder.state, Agents: len(def.Agents), Channels: len(def.Channels)}
	if state, err := filepath.Abs(folder.state); err == nil {
		s.State = state // as a running mesh says it
	}
	s.Expiring = expiringIn(folder.state, def)
	about, err := folder.running()
	if err == nil {
		s.URL, s.PID = about.URL, about.PID
		if s.Unwritable = unwritable(ctx, who); s.Unwritable {
			s.Running = true
			err = failf("the mesh runs and answers nobody: its journal cannot be written").
				withHint("its log says why. Where the disk is full, make room, and it goes on by itself")
		} else {
			err = s.ask(ctx, who, def)
		}
		var f *failure
		if errors.As(err, &f) && f.code == exitUsage {
			return err
		}
		if !s.Running {
			s.URL, s.PID = "", 0
		}
	}
	if p.out.json {
		if err := p.out.value(s); err != nil {
			return err
		}
	} else {
		p.out.status(def, &s)
	}
	return err
}

// unwritable asks the gateway for something that it refuses while it cannot write
// the journal.
func unwritable(ctx context.Context, who *clientFlags) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	o, err := who.connect(ctx, bcp.RoleOperator)
	if err != nil {
		return false // ask says what is wrong
	}
	defer o.Close()
	if len(o.shards) > 1 {
		return false // ask says which
	}
	_, err = o.operator(o.shards[0]).Sessions(ctx)
	var unanswered *agents.UnansweredError
	var refused *agents.RefusedError
	return errors.As(err, &unanswered) && errors.As(unanswered.Last, &refused) && refused.Code == bcp.Unavailable
}

// ask reads the books of the running mesh, as people of it: whatever it has
// nobody for stays empty.
func (s *meshStatus) ask(ctx context.Context, who *clientFlags, def *bcp.Mesh) error {
	o, err := who.connect(ctx, bcp.RoleOperator)
	if err != nil {
		return err
	}
	defer o.Close()
	s.Running = true
	var auditor, approver *client
	if len(def.Auditors) > 0 {
		who.as = string(def.Auditors[0])
		if auditor, err = who.connect(ctx, bcp.RoleAuditor); err != nil {
			return err
		}
		defer auditor.Close()
	}
	if len(def.Approvers) > 0 {
		who.as = string(def.Approvers[0])
		if approver, err = who.connect(ctx, bcp.RoleApprover); err != nil {
			return err
		}
		defer approver.Close()
	}
	shards, missing := onShards(ctx, o.shards, func(ctx context.Context, shard int) (shardStatus, error) {
		var on shardStatus
		err := on.ask(ctx, shard, o, auditor, approver)
		return on, err
	})
	for i := range shards {
		on := &shards[i]
		s.add(on)
		if on.several {
			s.Shards = append(s.Shards, *on)
		} else {
			s.Storage = on.Of.Storage
		}
	}
	return outcomeOf(missing)
}

// add adds up what a shard says.
func (s *meshStatus) add(on *sharded[shardStatus]) {
	s.Decided += on.Of.Decided
	if on.Of.Last.After(s.Last) {
		s.Last = on.Of.Last
	}
	s.AgentStatus = append(s.AgentStatus, listOn(on, on.Of.agents)...)
	s.Held = append(s.Held, listOn(on, on.Of.held)...)
	s.Ledger = append(s.Ledger, listOn(on, on.Of.ledger)...)
	s.Pushes = append(s.Pushes, listOn(on, on.Of.pushes)...)
}

// listOn lists things of a shard.
func listOn[S, T any](on *sharded[S], list []T) []sharded[T] {
	return oneList([]sharded[[]T]{{Of: list, Shard: on.Shard, several: on.several}})
}

func (on *shardStatus) ask(ctx context.Context, shard int, o, auditor, approver *client) error {
	storage, err := o.operator(shard).Storage(ctx)
	if err != nil {
		return outcomeOf(err)
	}
	on.Storage = &storage
	if on.agents, err = o.operator(shard).Agents(ctx); err != nil {
		return outcomeOf(err)
	}
	if auditor != nil {
		reads := auditor.auditor(shard)
		last, _, err := newestRecords(ctx, reads, 1)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			on.Decided, on.Last = last[0].Seq, last[0].At()
		}
		if on.ledger, err = newestLines(ctx, reads); err != nil {
			return err
		}
		span := spanFlags{since: timeFlag{at: time.Now().Add(-statusSpan)}}
		if on.pushes, err = pushCounts(ctx, reads, auditor.ofShard(shard), bcp.ChannelKey{}, &span); err != nil {
			return err
		}
	}
	if approver != nil {
		if on.held, err = approver.approver().onShard(shard).List(ctx); err != nil {
			return outcomeOf(err)
		}
	}
	return nil
}

func (o *output) status(def *bcp.Mesh, s *meshStatus) {
	state := "rests"
	if s.Running {
		state = "runs at " + s.URL
	}
	o.printf("%s %s: %s, %s\n", plain(meshName(def)), state, count(s.Agents, "agent"), count(s.Channels, "channel"))
	o.warnOfExpiry(s.Expiring)
	if !s.Running || s.Unwritable {
		return
	}
	if len(def.Auditors) == 0 {
		o.talkf("more is for an auditor to see: name a person in mesh.yaml, auditors: [kim], and start the mesh again")
	} else {
		o.printf("%s; last at %s\n", count(int(s.Decided), "decision"), s.Last.Local().Format(time.DateTime))
	}
	o.storage(s.Storage)
	o.shardTable(s.Shards)
	if len(s.AgentStatus) > 0 {
		o.printf("\n")
		o.heading("Agents")
		o.agentTable(s.AgentStatus, withoutCreds(s.State, def))
	}
	if len(s.Held) > 0 {
		o.printf("\n")
		o.heading(count(len(s.Held), "item") + " held for a person")
		var rows [][]string
		for i := range s.Held {
			it := &s.Held[i].Of
			rows = append(rows, []string{s.Held[i].cell(), string(it.ID), string(it.Kind), string(it.Controller) + " ← " + string(it.Reader),
				shortBits(it.Nominal), it.Since.Local().Format(time.DateTime), it.Deadline.Local().Format(time.DateTime)})
		}
		o.tableOfShards([]string{"item", "kind", "channel", "bits", "since", "deadline"}, rows)
		o.printf("decide: bcpmesh approvals watch, or bcpmesh approvals --help\n")
	}
	if len(s.Ledger) > 0 {
		o.printf("\n")
		o.heading("Ledger")
		ledgerTable(o, newBooks(def, s.Ledger))
	}
	if pushed := slices.DeleteFunc(slices.Clone(s.Pushes), func(c sharded[bcp.PushCount]) bool { return c.Of.Pushes() == 0 }); len(pushed) > 0 {
		o.printf("\n")
		o.heading("Pushes of the last day")
		pushTable(o, pushed)
	}
}

// shardTable shows each of several shards.
func (o *output) shardTable(shards []sharded[shardStatus]) {
	if len(shards) == 0 {
		return
	}
	var rows [][]string
	low := false
	for i := range shards {
		on := &shards[i].Of
		last, disk := "", ""
		if !on.Last.IsZero() {
			last = on.Last.Local().Format(time.DateTime)
		}
		if on.Storage.DiskSize > 0 {
			disk = megabytes(on.Storage.DiskFree) + " free"
		}
		low = low || on.Storage.Alert() != ""
		rows = append(rows, []string{shards[i].cell(), strconv.FormatUint(on.Decided, 10), last,
			megabytes(on.Storage.Journal) + " of " + megabytes(on.Storage.JournalLimit), megabytes(on.Storage.Used) + " of " + megabytes(on.Storage.Limit), disk})
	}
	o.tableOfShards([]string{"decisions", "last", "journal", "streams", "disk"}, rows)
	if low {
		o.talkf("what the journal may take is nearly used up: nothing is decided on that shard when it is; a larger max_disk_mb")
	}
}

// storage is shown where the mesh told it.
func (o *output) storage(s *bcp.Storage) {
	if s == nil {
		return
	}
	o.printf("journal: %s of %s, %s", megabytes(s.Journal), megabytes(s.JournalLimit), count(int(s.Records), "record"))
	if s.Begins > 0 {
		o.printf(" behind decision %d", s.Begins)
	}
	o.printf("\nstreams: %s of %s\n", megabytes(s.Used), megabytes(s.Limit))
	if s.DiskSize > 0 {
		o.printf("disk: %s free of %s\n", megabytes(s.DiskFree), megabytes(s.DiskSize))
	}
	if s.Snapshot > 0 {
		o.printf("snapshot: behind decision %d, of %s\n", s.Snapshot, s.SnapshotMade.Local().Format(time.DateTime))
	}
	switch s.Alert() {
	case bcp.AlertDiskLow:
		o.talkf("the disk is filling up: bcpmesh backup --truncate, or a larger max_disk_mb")
	case bcp.AlertDiskCritical:
		o.talkf("the disk is nearly full, and nothing will be decided when it is: bcpmesh backup --truncate, or a larger max_disk_mb")
	}
}

// megabytes rounds up, in the unit of max_disk_mb.
func megabytes(n int64) string {
	const mb = 1 << 20
	return strconv.FormatInt((n+mb-1)/mb, 10) + " MB"
}
