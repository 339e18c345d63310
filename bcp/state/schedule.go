package state

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// promptGrace is how late a run may be prompted; later it is missed, and
	// reported (PROTOCOL P9.4).
	promptGrace = time.Minute
	// maxMissed bounds the counting of missed runs: two years of minutes.
	maxMissed = 1 << 20
)

// cron is one schedule of an agent.
type cron struct {
	agent bcp.AgentName
	role  bcp.Role
	bcp.CronSchedule
	next bcp.Schedule
	due  int64 // the next run; 0 while nothing is scheduled
}

// scheduleKey names a schedule in the journal, whatever the definitions of today have.
type scheduleKey struct {
	agent             bcp.AgentName
	schedule, message string
}

func (c *cron) key() scheduleKey { return scheduleKey{c.agent, c.Schedule, c.Message} }

func (s *State) readSchedules(parse bcp.ScheduleParser) error {
	if parse == nil {
		return nil
	}
	for _, a := range s.mesh.Agents {
		role := bcp.RoleReader
		if a.Controller {
			role = bcp.RoleController
		}
		for _, c := range a.CronSchedules {
			next, err := parse(c.Schedule, s.mesh.TimeZone)
			if err != nil {
				return fmt.Errorf("schedule of %s: %w", a.Name, err)
			}
			s.crons = append(s.crons, cron{agent: a.Name, role: role, CronSchedule: c, next: next})
		}
	}
	return nil
}

// schedule sets when the next run is due after the last that is decided.
func (s *State) schedule(i int) {
	c := &s.crons[i]
	c.due = 0
	if at := c.next(time.Unix(0, max(s.begun, s.prompted[c.key()]))); s.begun != 0 && !at.IsZero() {
		c.due = at.UnixNano()
		s.addTimer(timer{at: c.due, cron: i + 1})
	}
}

// applyBegin begins the schedules of a gateway that starts, or of definitions
// that were loaded. Under the same definitions as before, runs since the last
// one were missed; under others nobody knows which they would have been.
func (s *State) applyBegin(d *bcp.Decision) {
	s.idle = cmp.Or(d.IdleTimeout, s.idle)
	if s.begun == 0 || d.Context != s.last.Context {
		s.begun = d.Time
		clear(s.prompted)
	}
	s.scheduleAll()
}

func (s *State) scheduleAll() {
	for i := range s.crons {
		s.schedule(i)
	}
}

// decidePrompt prompts an agent for a run that is due. Of several runs that went
// by, the newest is prompted if it is not long ago, and the rest are counted.
// A Controller's prompt begins a session as an act of its own would (PROTOCOL
// P4.4).
func (s *State) decidePrompt(m bcp.Moment, c *cron) (bcp.Decision, bool) {
	d := s.next(m, bcp.KindPrompt)
	if c.due == 0 || c.due > d.Time {
		return bcp.Decision{}, false
	}
	at := c.due
	for d.Count < maxMissed {
		next := c.next(time.Unix(0, at))
		if next.IsZero() || next.UnixNano() > d.Time {
			break
		}
		at = next.UnixNano()
		d.Count++
	}
	d.Agent, d.Role, d.Event, d.Note, d.Scheduled = c.agent, c.role, c.Schedule, c.Message, at
	if d.Time-at > int64(promptGrace) {
		d.Count++
		return d, true
	}
	d.Notice = newNoticeID(m)
	if c.role == bcp.RoleController {
		d.Controller = c.agent
		s.setSession(&d, m, c.agent, false)
	}
	return d, true
}

func (s *State) applyPrompt(d *bcp.Decision) {
	key := scheduleKey{d.Agent, d.Event, d.Note}
	s.prompted[key] = d.Scheduled
	for i := range s.crons {
		if s.crons[i].key() == key {
			s.schedule(i)
		}
	}
	a := s.allAgents[d.Agent]
	if d.Notice == "" || a == nil {
		return
	}
	for _, n := range a.notices { // an agent that was away is prompted once
		if n.prompt == key {
			s.forgetNotice(n.id)
			break
		}
	}
	s.notify(d.Agent, notice{id: d.Notice, role: d.Role, peer: bcp.Gateway, prompt: key, at: d.Scheduled})
}
