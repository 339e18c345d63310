package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Reload switches to other definitions: all of them or, with an error, none
// (PROTOCOL P1.5). Agents whose permissions change are disconnected and come
// back with the same creds; removed ones are cut off. The result lists the
// removed and added permissions, one a line.
//
// The definitions are compiled and their accounts are signed beside the traffic, which
// waits only while the state goes on under them, the server takes the accounts that
// changed, and one record is written.
func (m *Mesh) Reload(ctx context.Context, next *bcp.Mesh) (status.Reloaded, error) {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	if !m.clustered() {
		if err := CheckReplicas(next); err != nil {
			return status.Reloaded{}, fmt.Errorf("reload: %w", err)
		}
	}
	before := m.definition.Load()
	result := status.Reloaded{Changes: changes(before, next), Notes: restartNotes(before, next)}
	switchAccounts, err := m.prepareAccounts(next)
	if err != nil {
		return status.Reloaded{}, fmt.Errorf("reload: %w", err)
	}
	switched := false
	switchOver := func() error {
		if err := switchAccounts(ctx); err != nil {
			return errors.Join(err, m.switchBack(ctx, before))
		}
		if m.config.OnReload != nil {
			m.config.OnReload(next)
		}
		switched = true
		return nil
	}
	if err := m.gateway.Reload(ctx, m.stateConfig(next), result.Changes, switchOver); err != nil {
		if switched { // and nothing recorded
			err = errors.Join(err, m.switchBack(ctx, before))
			if m.config.OnReload != nil {
				m.config.OnReload(before)
			}
		}
		return status.Reloaded{}, fmt.Errorf("reload: %w", err)
	}
	m.definition.Store(next)
	m.clients.use(next)
	m.notices.Use(next)
	if c := m.running.Load(); c != nil {
		c.use(next)
	}
	return result, nil
}

// switchBackTimeout is the timeout for restoring the previous permissions.
const switchBackTimeout = 10 * time.Second

// switchBack gives the bus the previous permissions again, even if ctx has
// ended: that may be the reason.
func (m *Mesh) switchBack(ctx context.Context, before *bcp.Mesh) error {
	if m.server == nil { // nothing was switched
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), switchBackTimeout)
	defer cancel()
	return m.updateAccounts(ctx, before)
}

// reloadFiles is a reload on the operator's request.
func (m *Mesh) reloadFiles(ctx context.Context, _ []byte) (any, error) {
	if m.config.Load == nil {
		return status.Reloaded{Errors: []string{"this mesh was not started from a folder of definitions"}}, nil
	}
	next, err := m.config.Load()
	if err != nil {
		return status.Reloaded{Errors: strings.Split(err.Error(), "\n")}, nil
	}
	result, err := m.Reload(ctx, next)
	if err != nil {
		m.config.Logger.Error("reloading", "error", err)
		result.Errors = append(result.Errors, err.Error())
	}
	return result, nil
}

// changes lists the permissions and budgets that next removes (-) and adds (+).
func changes(before, next *bcp.Mesh) []string {
	had, has := grants(before), grants(next)
	var lines []string
	for _, g := range had {
		if _, kept := slices.BinarySearch(has, g); !kept {
			lines = append(lines, "- "+g)
		}
	}
	for _, g := range has {
		if _, old := slices.BinarySearch(had, g); !old {
			lines = append(lines, "+ "+g)
		}
	}
	return lines
}

func grants(def *bcp.Mesh) []string {
	var all []string
	for _, s := range subjects.Permissions(def) {
		who := string(s.Agent) + " (" + s.Role.String() + ") may "
		for _, subject := range s.PubAllow {
			all = append(all, who+"publish "+subject)
		}
		for _, subject := range s.SubAllow {
			all = append(all, who+"subscribe "+subject)
		}
		if s.Respond {
			all = append(all, fmt.Sprintf("%sreply once within %s", who, s.RespondFor))
		}
	}
	for i := range def.Channels {
		c := &def.Channels[i]
		bound := ""
		if c.CapacityBudget > 0 {
			bound = ", and " + c.CapacityBudget.Words() + " of capacity"
		}
		all = append(all, fmt.Sprintf("%s may learn %s of %s in an epoch%s", c.Controller, c.Budget.Words(), c.Reader, bound))
	}
	for _, a := range def.Agents {
		for _, host := range a.Egress.Hosts {
			all = append(all, string(a.Name)+" may fetch from "+host)
		}
		if len(a.Egress.Hosts) > 0 {
			all = append(all, fmt.Sprintf("%s may tell hosts %s within %s", a.Name, a.Egress.Budget.Words(), a.Egress.Window))
		}
		if a.AsksModel() {
			all = append(all, fmt.Sprintf("%s may call %s%s", a.Name, a.Model, mayCost(a.Run)))
		}
	}
	all = append(all, bcp.AcceptedLegs(def)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// mayCost says how much the model of an agent may use.
func mayCost(run bcp.Run) string {
	var parts []string
	if run.CostBudget > 0 {
		parts = append(parts, run.CostBudget.String()+" USD")
	}
	if run.TokenBudget > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", run.TokenBudget))
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf(" for %s within %s", strings.Join(parts, " and "), run.Window)
}

// restartNotes lists changes that a running mesh cannot make.
func restartNotes(before, next *bcp.Mesh) []string {
	var notes []string
	add := func(differs bool, key string) {
		if differs {
			notes = append(notes, key+" holds from the next start on")
		}
	}
	add(before.Replicas != next.Replicas, "replicas")
	add(before.SyncInterval != next.SyncInterval, "sync")
	add(before.RequireWitness != next.RequireWitness, "require_witness")
	add(before.MaxDisk != next.MaxDisk, "max_disk_mb")
	return notes
}
