package run

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/keys"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

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
	Storage    *status.Storage `json:"storage,omitempty"`  // of a mesh that runs and decides
	Expiring   []string        `json:"expiring,omitempty"` // whose last creds expire soon
	// AgentStatus is how each agent is, of a mesh that runs.
	AgentStatus []status.Agent `json:"agent_status,omitempty"`
	Held        []bcp.Item     `json:"held"`
}

// Status shows how the mesh is.
type Status struct{ meshdir.StateFlags }

func (o *Status) Run(ctx context.Context, p *cli.Program, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	folder, def, err := o.Load()
	if err != nil {
		return err
	}
	s := meshStatus{Name: def.Name, State: cli.Absolute(folder.State), Agents: len(def.Agents), Channels: len(def.Channels)}
	s.Expiring = keys.ExpiringIn(folder.State, def)
	about, err := folder.Running()
	if err == nil {
		err = s.ask(ctx, &client.Flags{Where: o.StateFlags}, def)
	}
	if s.Running {
		s.URL, s.PID = about.URL, about.PID
	}
	if err := p.Out.Show(s, func() { showStatus(p.Out, def, &s) }); err != nil {
		return err
	}
	return err
}

// unwritable asks the gateway for something that it refuses while it cannot write
// the journal.
func unwritable(ctx context.Context, o *agents.Operator) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := o.Sessions(ctx)
	var unanswered *agents.UnansweredError
	var refused *agents.RefusedError
	return errors.As(err, &unanswered) && errors.As(unanswered.Last, &refused) && refused.Code == bcp.Unavailable
}

// ask asks the running mesh how it is, and what waits for its approvers.
func (s *meshStatus) ask(ctx context.Context, who *client.Flags, def *bcp.Mesh) error {
	o, err := who.Connect(ctx, bcp.RoleOperator)
	if err != nil {
		return err
	}
	defer o.Close()
	s.Running = true
	if s.Unwritable = unwritable(ctx, o.Operator()); s.Unwritable {
		return cli.Failf("the mesh runs but answers nobody: its journal cannot be written").
			WithHint("its log says why. If the disk is full, make room, and it resumes by itself")
	}
	storage, err := o.Operator().Storage(ctx)
	if err != nil {
		return err
	}
	s.Storage, s.Decided = &storage, storage.Decisions
	if s.AgentStatus, err = o.Operator().Agents(ctx); err != nil {
		return err
	}
	if len(def.Approvers) > 0 {
		who.As = string(def.Approvers[0])
		approver, err := who.Connect(ctx, bcp.RoleApprover)
		if err != nil {
			return err
		}
		defer approver.Close()
		if s.Held, err = agents.NewApprover(approver.Connection).List(ctx); err != nil {
			return err
		}
	}
	if storage.Closed != "" {
		return closedFailure(storage.Closed)
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
	o.Printf("%s\n", cli.Count(int(s.Decided), "decision"))
	showStorage(o, s.Storage)
	if len(s.AgentStatus) > 0 {
		o.Printf("\n")
		o.Heading("Agents")
		client.AgentTable(o, s.AgentStatus, keys.WithoutCreds(s.State, def))
	}
	if len(s.Held) > 0 {
		o.Printf("\n%s held for a person: bcpmesh approvals\n", cli.Count(len(s.Held), "item"))
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
