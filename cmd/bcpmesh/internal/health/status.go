package health

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
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/audit"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/ledger"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// statusSpan is how far back status counts pushes.
const statusSpan = 24 * time.Hour

// meshStatus is what status shows.
type meshStatus struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	// Unwritable says that the mesh runs and decides nothing: its journal cannot be written.
	Unwritable bool            `json:"unwritable,omitzero"`
	URL        string          `json:"url,omitempty"`
	State      string          `json:"state"`
	PID        int             `json:"pid,omitzero"`
	Agents     int             `json:"agents"`
	Channels   int             `json:"channels"`
	Decided    uint64          `json:"decisions"`
	Last       time.Time       `json:"last_decision,omitzero"`
	Storage    *status.Storage `json:"storage,omitempty"`  // of a mesh that runs and decides
	Expiring   []string        `json:"expiring,omitempty"` // whose last creds expire soon
	// AgentStatus is how each agent is, of a mesh that runs.
	AgentStatus []status.Agent    `json:"agent_status,omitempty"`
	Held        []bcp.Item        `json:"held"`
	Ledger      []bcp.LedgerLine  `json:"ledger"`
	Pushes      []state.PushCount `json:"pushes"` // of the last day, by subscription
}

// StatusCommand returns the command status.
func StatusCommand(p *cli.Program) *cobra.Command {
	var who client.Flags
	cmd := cli.Command("status", func(ctx context.Context, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return show(ctx, p, &who)
	})
	who.Where.AddTo(cmd)
	return cmd
}

func show(ctx context.Context, p *cli.Program, who *client.Flags) error {
	folder, def, err := who.Where.Load()
	if err != nil {
		return err
	}
	s := meshStatus{Name: def.Name, State: folder.State, Agents: len(def.Agents), Channels: len(def.Channels)}
	if state, err := filepath.Abs(folder.State); err == nil {
		s.State = state // as a running mesh says it
	}
	s.Expiring = keys.ExpiringIn(folder.State, def)
	about, err := folder.Running()
	if err == nil {
		s.URL, s.PID = about.URL, about.PID
		if s.Unwritable = unwritable(ctx, who); s.Unwritable {
			s.Running = true
			err = cli.Failf("the mesh runs but answers nobody: its journal cannot be written").
				WithHint("its log says why. If the disk is full, make room, and it resumes by itself")
		} else {
			err = s.ask(ctx, who, def)
			if closed := s.closed(); err == nil && closed != nil {
				err = closed
			}
		}
		var f *cli.Failure
		if errors.As(err, &f) && f.Code == cli.ExitUsage {
			return err
		}
		if !s.Running {
			s.URL, s.PID = "", 0
		}
	}
	if err := p.Out.Show(s, func() { showStatus(p.Out, def, &s) }); err != nil {
		return err
	}
	return err
}

// unwritable asks the gateway for something that it refuses while it cannot write
// the journal.
func unwritable(ctx context.Context, who *client.Flags) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	o, err := who.Connect(ctx, bcp.RoleOperator)
	if err != nil {
		return false // ask says what is wrong
	}
	defer o.Close()
	_, err = o.Operator().Sessions(ctx)
	var unanswered *agents.UnansweredError
	var refused *agents.RefusedError
	return errors.As(err, &unanswered) && errors.As(unanswered.Last, &refused) && refused.Code == bcp.Unavailable
}

// ask reads the books of the running mesh, as people of it: whatever it has
// nobody for stays empty.
func (s *meshStatus) ask(ctx context.Context, who *client.Flags, def *bcp.Mesh) error {
	o, err := who.Connect(ctx, bcp.RoleOperator)
	if err != nil {
		return err
	}
	defer o.Close()
	s.Running = true
	var auditor, approver *client.Client
	if len(def.Auditors) > 0 {
		who.As = string(def.Auditors[0])
		if auditor, err = who.Connect(ctx, bcp.RoleAuditor); err != nil {
			return err
		}
		defer auditor.Close()
	}
	if len(def.Approvers) > 0 {
		who.As = string(def.Approvers[0])
		if approver, err = who.Connect(ctx, bcp.RoleApprover); err != nil {
			return err
		}
		defer approver.Close()
	}
	storage, err := o.Operator().Storage(ctx)
	if err != nil {
		return meshdir.Failure(err)
	}
	s.Storage = &storage
	if s.AgentStatus, err = o.Operator().Agents(ctx); err != nil {
		return meshdir.Failure(err)
	}
	if auditor != nil {
		reads := auditor.Auditor()
		last, err := audit.NewestRecords(ctx, reads, 1, nil)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			s.Decided, s.Last = last[0].Seq, last[0].At()
		}
		if s.Ledger, err = ledger.NewestLines(ctx, reads); err != nil {
			return err
		}
		span := client.SpanFlags{Since: client.TimeFlag{At: time.Now().Add(-statusSpan)}}
		if s.Pushes, err = ledger.PushCounts(ctx, reads, auditor.Definition, bcp.ChannelKey{}, &span); err != nil {
			return err
		}
	}
	if approver != nil {
		if s.Held, err = agents.NewApprover(approver.Connection).List(ctx); err != nil {
			return meshdir.Failure(err)
		}
	}
	return nil
}

// closed says why the mesh lets nothing through; nil if it does.
func (s *meshStatus) closed() *cli.Failure {
	if s.Storage != nil && s.Storage.Closed != "" {
		return closedFailure(s.Storage.Closed)
	}
	return nil
}

// closedFailure says why a gateway lets nothing through, and what to do.
func closedFailure(why bcp.AlertKind) *cli.Failure {
	const newest = "look for a newer state first; if there is none, bcpmesh up --accept-rollback"
	switch why {
	case bcp.AlertWitnessRefused:
		return cli.Failf("nothing is let through: a witness has seen more of the journal than is here (%s)", why).WithHint(newest)
	case bcp.AlertWitnessMissing:
		return cli.Failf("asks and pushes are refused: no witness has answered for longer than require_witness (%s)", why).WithHint("bring a witness back, or name another: bcpmesh up --witness")
	}
	return cli.Failf("channels are closed: agents or people have seen more of the journal than is here (%s)", why).WithHint(newest)
}

func showStatus(o *cli.Output, def *bcp.Mesh, s *meshStatus) {
	does := "rests"
	if s.Running {
		does = "runs at " + s.URL
	}
	o.Printf("%s %s: %s, %s\n", cli.Plain(meshdir.MeshName(def)), does, cli.Count(s.Agents, "agent"), cli.Count(s.Channels, "channel"))
	keys.WarnOfExpiry(o, s.Expiring)
	if !s.Running || s.Unwritable {
		return
	}
	if len(def.Auditors) == 0 {
		o.Talkf("an auditor can see more: name a person in mesh.yaml, auditors: [kim], and restart the mesh")
	} else {
		o.Printf("%s; last at %s\n", cli.Count(int(s.Decided), "decision"), s.Last.Local().Format(time.DateTime))
	}
	showStorage(o, s.Storage)
	if len(s.AgentStatus) > 0 {
		o.Printf("\n")
		o.Heading("Agents")
		client.AgentTable(o, s.AgentStatus, keys.WithoutCreds(s.State, def))
	}
	if len(s.Held) > 0 {
		o.Printf("\n")
		o.Heading(cli.Count(len(s.Held), "item") + " held for a person")
		o.Table([]string{"item", "kind", "channel", "bits", "since", "deadline"}, cli.Rows(s.Held, func(it *bcp.Item) []string {
			return []string{string(it.ID), string(it.Kind), string(it.Controller) + " ← " + string(it.Reader),
				it.Nominal.Rounded(), it.Since.Local().Format(time.DateTime), it.Deadline.Local().Format(time.DateTime)}
		}))
		o.Printf("decide: bcpmesh approvals --help\n")
	}
	if len(s.Ledger) > 0 {
		o.Printf("\n")
		o.Heading("Ledger")
		ledger.LedgerTable(o, ledger.NewBooks(def, s.Ledger))
	}
	if pushed := slices.DeleteFunc(slices.Clone(s.Pushes), func(c state.PushCount) bool { return c.Pushes() == 0 }); len(pushed) > 0 {
		o.Printf("\n")
		o.Heading("Pushes of the last day")
		ledger.PushTable(o, pushed)
	}
}

// showStorage is shown if the mesh told it.
func showStorage(o *cli.Output, s *status.Storage) {
	if s == nil {
		return
	}
	o.Printf("journal: %s of %s, %s", megabytes(s.Journal), megabytes(s.JournalLimit), cli.Count(int(s.Records), "record"))
	if s.Begins > 0 {
		o.Printf(" after decision %d", s.Begins)
	}
	o.Printf("\nstreams: %s of %s\n", megabytes(s.Used), megabytes(s.Limit))
	if s.DiskSize > 0 {
		o.Printf("disk: %s free of %s\n", megabytes(s.DiskFree), megabytes(s.DiskSize))
	}
	if s.Snapshot > 0 {
		o.Printf("snapshot: after decision %d, of %s\n", s.Snapshot, s.SnapshotMade.Local().Format(time.DateTime))
	}
	switch s.Alert() {
	case bcp.AlertDiskLow:
		o.Talkf("the disk is filling up: bcpmesh backup --truncate, or a larger max_disk_mb")
	case bcp.AlertDiskCritical:
		o.Talkf("the disk is nearly full, and nothing will be decided when it is: bcpmesh backup --truncate, or a larger max_disk_mb")
	}
}

// megabytes rounds up, in the unit of max_disk_mb.
func megabytes(n int64) string {
	const mb = 1 << 20
	return strconv.FormatInt((n+mb-1)/mb, 10) + " MB"
}
