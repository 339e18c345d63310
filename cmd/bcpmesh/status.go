package main

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// meshStatus is what status shows.
type meshStatus struct {
	Name     string           `json:"name"`
	Running  bool             `json:"running"`
	URL      string           `json:"url,omitempty"`
	State    string           `json:"state"`
	PID      int              `json:"pid,omitzero"`
	Agents   int              `json:"agents"`
	Channels int              `json:"channels"`
	Decided  uint64           `json:"decisions"`
	Last     time.Time        `json:"last_decision,omitzero"`
	Held     []bcp.Item       `json:"held"`
	Ledger   []bcp.LedgerLine `json:"ledger"`
}

func statusCommand(p *program) *cobra.Command {
	var who clientFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the mesh runs, what waits and what is spent",
		Long: `Show the mesh of the current folder: whether it runs and where, how much it has
decided, what waits for a person, and what the channels have spent.

The exit code is 0 when it runs and 1 when it does not.`,
		Example: `  bcpmesh status
  bcpmesh status --dir ./office --json`,
		Args: arguments(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			return status(ctx, p, &who)
		},
	}
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
	about, err := folder.running()
	if err == nil {
		s.URL, s.PID = about.URL, about.PID
		if err = s.ask(ctx, who, def); !s.Running {
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

// ask reads the books of the running mesh, as people of it: whatever it has
// nobody for stays empty.
func (s *meshStatus) ask(ctx context.Context, who *clientFlags, def *bcp.Mesh) error {
	if len(def.Auditors) == 0 && len(def.Approvers) == 0 {
		return s.dial(ctx)
	}
	if len(def.Auditors) > 0 {
		who.as = string(def.Auditors[0])
		c, err := who.connect(ctx, bcp.RoleAuditor)
		if err != nil {
			return err
		}
		defer c.Close()
		s.Running = true
		auditor := agents.NewAuditor(c.Connection)
		last, _, err := newestRecords(ctx, auditor, 1)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			s.Decided, s.Last = last[0].Seq, last[0].At()
		}
		if s.Ledger, err = newestLines(ctx, auditor); err != nil {
			return err
		}
	}
	if len(def.Approvers) > 0 {
		who.as = string(def.Approvers[0])
		c, err := who.connect(ctx, bcp.RoleApprover)
		if err != nil {
			return err
		}
		defer c.Close()
		s.Running = true
		if s.Held, err = agents.NewApprover(c.Connection).List(ctx); err != nil {
			return outcomeOf(err)
		}
	}
	return nil
}

// dial finds out no more than that the mesh runs.
func (s *meshStatus) dial(ctx context.Context) error {
	at, err := url.Parse(s.URL)
	if err != nil {
		return failf("the mesh left a URL that is none: %s", quoted(s.URL))
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", at.Host)
	if err != nil || !alive(s.PID) {
		return failf("the mesh is not running: it was killed").withHint("start it: bcpmesh up")
	}
	s.Running = true
	return conn.Close()
}

func (o *output) status(def *bcp.Mesh, s *meshStatus) {
	state := "rests"
	if s.Running {
		state = "runs at " + s.URL
	}
	o.printf("%s %s: %s, %s\n", plain(meshName(def)), state, count(s.Agents, "agent"), count(s.Channels, "channel"))
	if !s.Running {
		return
	}
	if len(def.Auditors) == 0 {
		o.talkf("more is for an auditor to see: name a person in mesh.yaml, auditors: [kim], and start the mesh again")
	} else {
		o.printf("%s; last at %s\n", count(int(s.Decided), "decision"), s.Last.Local().Format(time.DateTime))
	}
	if len(s.Held) > 0 {
		o.printf("\n")
		o.heading(count(len(s.Held), "item") + " held for a person")
		var rows [][]string
		for _, it := range s.Held {
			rows = append(rows, []string{string(it.ID), string(it.Kind), string(it.Controller) + " ← " + string(it.Reader),
				shortBits(it.Nominal), it.Since.Local().Format(time.DateTime), it.Deadline.Local().Format(time.DateTime)})
		}
		o.table([]string{"item", "kind", "channel", "bits", "since", "deadline"}, rows)
		o.printf("decide: bcpmesh approvals watch, or bcpmesh approvals --help\n")
	}
	if len(s.Ledger) > 0 {
		o.printf("\n")
		o.heading("Ledger")
		o.ledgerTable(def, s.Ledger)
	}
}
