package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// A mesh on a cluster may have several shards, each with a journal, an audit and a
// ledger of its own. People are on all of them: what names an agent goes to its shard,
// and what lists asks all. A mesh on one shard shows nothing of it.

// shardFlag is one shard of a mesh, or all.
type shardFlag struct {
	number int
	named  bool
}

// String returns the number, or nothing for all.
func (f *shardFlag) String() string {
	if !f.named {
		return ""
	}
	return strconv.Itoa(f.number)
}

// Type names the flag's values in the help.
func (f *shardFlag) Type() string { return "NUMBER" }

// Set takes the number of a shard.
func (f *shardFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n > bcp.MaxShard {
		return fmt.Errorf("expected the number of a shard, 0 to %d", bcp.MaxShard)
	}
	f.number, f.named = int(n), true
	return nil
}

// addTo makes it a flag of cmd, with completion.
func (f *shardFlag) addTo(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(f, "shard", usage)
	complete(cmd, "shard", completeShards)
}

// ofPeople is the usage of the flag where people ask.
const ofPeople = "on a cluster: only this shard of the mesh"

// ofJournal is the usage of the flag where one journal is read.
const ofJournal = "on a cluster: the shard, where the mesh has several"

// among returns the shards that are meant, of a mesh of n.
func (f *shardFlag) among(n int) ([]int, error) {
	switch {
	case f.named && f.number >= n:
		return nil, usagef("--shard: the mesh has no shard %d", f.number).withHint("%s", shardsThere(n))
	case f.named:
		return []int{f.number}, nil
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all, nil
}

func shardsThere(n int) string {
	if n == 1 {
		return "it has shard 0 alone"
	}
	return fmt.Sprintf("it has the shards 0 to %d", n-1)
}

// completeShards completes the shards of the mesh that a command line is about.
func completeShards(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	mesh, err := meshOf(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var numbers []string
	for shard := range mesh.Shards() {
		numbers = append(numbers, strconv.Itoa(shard))
	}
	return numbers, cobra.ShellCompDirectiveNoFileComp
}

// of returns the shards that are meant of the mesh of a folder, and the definitions that
// say who is on which. Only a mesh on a cluster has several. Where its definitions
// cannot be loaded, those count that gateways have logins to.
func (f *shardFlag) of(folder meshFolder, def *bcp.Mesh, store *accounts.Store, clustered bool) (shards []int, places *bcp.Mesh, err error) {
	n := 1
	if clustered {
		if places = def; places == nil {
			places = folder.definition()
		}
		if places != nil {
			n = places.Shards()
		} else if n, err = shardsOfGateways(store); err != nil {
			return nil, nil, err
		}
	}
	shards, err = f.among(n)
	return shards, places, err
}

func shardsOfGateways(store *accounts.Store) (int, error) {
	remotes, err := store.Remotes()
	if err != nil {
		return 0, failf("%s", err)
	}
	n := 1
	for _, r := range remotes {
		n = max(n, accounts.ShardOf(r.Account)+1)
	}
	return n, nil
}

// inForce returns definitions as they are enforced: with their shards where the
// accounts were given to a cluster, and as a whole elsewhere.
func (m meshFolder) inForce(def *bcp.Mesh) *bcp.Mesh {
	if wasExported(m.state) {
		return def
	}
	return def.Whole()
}

// movedFailure says what to do about an agent that would be on another shard of a
// cluster than its keys are.
func movedFailure(err error) *failure {
	return failf("%s", err).withHint("its creds and its ledger are there: leave it on that shard (shard: N in its definition), or give the agent that you put on the other one another name; it keeps its shard since somebody of its island was given creds, or an export or a push gave it to a cluster")
}

// on returns the shards that have to do with an agent: its own, or all that the client
// speaks to where it is not known, or is nobody.
func (c *client) on(agent bcp.AgentName) []int {
	if len(c.shards) > 1 && c.places != nil {
		if a, ok := c.places.Agent(agent); ok {
			return []int{a.Shard}
		}
	}
	return c.shards
}

// one returns the only shard that has to do with an agent.
func (c *client) one(agent bcp.AgentName) (int, error) {
	shards := c.on(agent)
	if len(shards) > 1 {
		return 0, usagef("the mesh has %d shards, and the definitions do not say which is meant", len(shards)).withHint("name it: --shard")
	}
	return shards[0], nil
}

// ofShard returns the definitions of a shard, where they are at hand.
func (c *client) ofShard(shard int) *bcp.Mesh {
	if c.definition == nil || c.places == nil {
		return c.definition
	}
	return c.definition.OfShard(shard)
}

func (c *client) operator(shard int) *agents.Operator {
	return agents.NewOperator(c.Connection).OnShard(shard)
}

func (c *client) auditor(shard int) *agents.Auditor {
	return agents.NewAuditor(c.Connection).OnShard(shard)
}

// sharded is something of one shard. Its JSON names the shard unless it is 0.
type sharded[T any] struct {
	Of    T   `json:",embed"`
	Shard int `json:"shard,omitzero"`

	several bool // shards were asked
}

// cell names the shard in a table, where several were asked.
func (s *sharded[T]) cell() string {
	if !s.several {
		return ""
	}
	return strconv.Itoa(s.Shard)
}

// label names the shard in front of a line, where several were asked.
func (s *sharded[T]) label() string {
	if !s.several {
		return ""
	}
	return "shard " + s.cell() + ": "
}

// onShards asks shards at once, and returns in their order what they say. Where some of
// several fail, the error says which, and the others are returned all the same.
func onShards[T any](ctx context.Context, shards []int, ask func(ctx context.Context, shard int) (T, error)) ([]sharded[T], error) {
	answers, errs := make([]T, len(shards)), make([]error, len(shards))
	var asking sync.WaitGroup
	for i, shard := range shards {
		asking.Go(func() { answers[i], errs[i] = ask(ctx, shard) })
	}
	asking.Wait()
	if len(shards) == 1 && errs[0] != nil {
		return nil, errs[0]
	}
	var said []sharded[T]
	for i, shard := range shards {
		if errs[i] == nil {
			said = append(said, sharded[T]{answers[i], shard, len(shards) > 1})
		}
	}
	err := ofShards(shards, errs)
	var f *failure
	if errors.As(err, &f) && len(said) > 0 {
		f.code = exitPartly
	}
	return said, err
}

// ofShards makes one failure of those of several shards.
func ofShards(shards []int, errs []error) error {
	var whole *failure
	for i, err := range errs {
		if err = outcomeOf(err); err == nil {
			continue
		}
		var f *failure
		if !errors.As(err, &f) {
			return err // it was interrupted
		}
		if whole == nil {
			whole = &failure{code: f.code, hint: f.hint}
		} else {
			whole.message += "; "
		}
		whole.message += fmt.Sprintf("shard %d: %s", shards[i], f.message)
	}
	if whole == nil {
		return nil
	}
	return whole
}

// listOfShards asks shards as onShards does, and makes one list of what they list: nil
// where none answers.
func listOfShards[T any](ctx context.Context, shards []int, ask func(ctx context.Context, shard int) ([]T, error)) ([]sharded[T], error) {
	lists, missing := onShards(ctx, shards, ask)
	if lists == nil {
		return nil, missing
	}
	return oneList(lists), missing
}

// showList shows a list of [listOfShards], or says that there is none. Where no shard
// answered there is nothing to show.
func showList[T any](o *output, list []sharded[T], none string, table func(*output, []sharded[T])) error {
	switch {
	case list == nil:
	case o.json:
		return o.value(list)
	case len(list) == 0:
		o.talkf("%s", none)
	default:
		table(o, list)
	}
	return nil
}

// oneList makes one list of those of shards.
func oneList[T any](lists []sharded[[]T]) []sharded[T] {
	all := []sharded[T]{}
	for i := range lists {
		for _, one := range lists[i].Of {
			all = append(all, sharded[T]{one, lists[i].Shard, lists[i].several})
		}
	}
	return all
}

// ofAll are the things of a list without their shards.
func ofAll[T any](list []sharded[T]) []T {
	all := make([]T, len(list))
	for i := range list {
		all[i] = list[i].Of
	}
	return all
}

// alone is a list of a mesh on one shard.
func alone[T any](list []T) []sharded[T] { return oneList([]sharded[[]T]{{Of: list}}) }

// tableOfShards is table with the shard in front of each row: its column is left out
// where no row has one.
func (o *output) tableOfShards(header []string, rows [][]string) {
	if slices.ContainsFunc(rows, func(row []string) bool { return row[0] != "" }) {
		o.table(append([]string{"shard"}, header...), rows)
		return
	}
	without := make([][]string, len(rows))
	for i, row := range rows {
		without[i] = row[1:]
	}
	o.table(header, without)
}

// audited is a record of the audit of a shard.
type audited = sharded[agents.AuditRecord]

// records returns what the audits of shards have of a selection: the past in the order
// of time, and then, where the selection follows, what is new as it comes. A record
// holds until the next.
func (c *client) records(ctx context.Context, shards []int, of func(ctx context.Context, shard int) (agents.Selection, error)) iter.Seq2[*audited, error] {
	return func(yield func(*audited, error) bool) {
		selections, err := onShards(ctx, shards, of)
		if err != nil {
			yield(nil, outcomeOf(err))
			return
		}
		if len(shards) == 1 {
			one := audited{Shard: shards[0]}
			for r, err := range c.auditor(shards[0]).Select(ctx, selections[0].Of) {
				one.Of = r
				if !yield(&one, outcomeOf(err)) {
					return
				}
			}
			return
		}
		if c.past(ctx, selections, yield) && selections[0].Of.Follow {
			c.follow(ctx, selections, yield)
		}
	}
}

// past yields in the order of time, and moves the selections behind it. It is false
// where nothing more is wanted.
func (c *client) past(ctx context.Context, selections []sharded[agents.Selection], yield func(*audited, error) bool) bool {
	sources := make([]iter.Seq2[*audited, error], len(selections))
	for i := range selections {
		s := &selections[i]
		selection := s.Of
		selection.Follow = false
		sources[i] = func(yield func(*audited, error) bool) {
			for r, err := range c.auditor(s.Shard).Select(ctx, selection) {
				if err != nil {
					err = outcomeOf(fmt.Errorf("shard %d: %w", s.Shard, err))
				}
				if !yield(&audited{r, s.Shard, true}, err) {
					return
				}
			}
		}
	}
	for one, err := range byTime(sources, func(one *audited) time.Time { return one.Of.Decision.At() }) {
		if err != nil {
			yield(nil, err)
			return false
		}
		i := slices.IndexFunc(selections, func(s sharded[agents.Selection]) bool { return s.Shard == one.Shard })
		selections[i].Of.From = one.Of.Sequence + 1
		if !yield(one, nil) {
			return false
		}
	}
	return true
}

// byTime yields what sources have in the order of time, each of which is in that order,
// up to the first error.
func byTime[T any](sources []iter.Seq2[T, error], at func(T) time.Time) iter.Seq2[T, error] {
	type source struct {
		next func() (T, error, bool)
		head T
	}
	if len(sources) == 1 {
		return sources[0]
	}
	return func(yield func(T, error) bool) {
		var open []*source
		// advance is false where the source has ended.
		advance := func(s *source) (ok bool, err error) {
			s.head, err, ok = s.next()
			return ok && err == nil, err
		}
		var none T
		for _, records := range sources {
			next, stop := iter.Pull2(records)
			defer stop()
			s := &source{next: next}
			ok, err := advance(s)
			if err != nil {
				yield(none, err)
				return
			}
			if ok {
				open = append(open, s)
			}
		}
		for len(open) > 0 {
			// Of several at the same time, that of the first source.
			first := slices.MinFunc(open, func(a, b *source) int { return at(a.head).Compare(at(b.head)) })
			if !yield(first.head, nil) {
				return
			}
			ok, err := advance(first)
			if err != nil {
				yield(none, err)
				return
			}
			if !ok {
				open = slices.DeleteFunc(open, func(s *source) bool { return s == first })
			}
		}
	}
}

// follow yields new records of shards as they come, until ctx ends or nothing more is
// wanted.
func (c *client) follow(ctx context.Context, selections []sharded[agents.Selection], yield func(*audited, error) bool) {
	type heard struct {
		record *audited
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	all := make(chan heard)
	var following sync.WaitGroup
	for _, s := range selections {
		following.Go(func() {
			for r, err := range c.auditor(s.Shard).Select(ctx, s.Of) {
				select {
				case all <- heard{&audited{r, s.Shard, true}, outcomeOf(err)}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	go func() { following.Wait(); close(all) }()
	defer following.Wait()
	defer cancel()
	for h := range all {
		if !yield(h.record, h.err) || h.err != nil {
			return
		}
	}
}
