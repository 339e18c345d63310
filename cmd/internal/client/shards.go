package client

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
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// A mesh on a cluster may have several shards, each with a journal, an audit and a
// ledger of its own. People are on all of them: what names an agent goes to its shard,
// and what lists asks all. A mesh on one shard shows nothing of it.

// ShardFlag is one shard of a mesh, or all.
type ShardFlag struct {
	number int
	Named  bool
}

// String returns the number, or nothing for all.
func (f *ShardFlag) String() string {
	if !f.Named {
		return ""
	}
	return strconv.Itoa(f.number)
}

// Type names the flag's values in the help.
func (f *ShardFlag) Type() string { return "NUMBER" }

// Set takes the number of a shard.
func (f *ShardFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n > bcp.MaxShard {
		return fmt.Errorf("expected the number of a shard, 0 to %d", bcp.MaxShard)
	}
	f.number, f.Named = int(n), true
	return nil
}

// AddTo makes it a flag of cmd, with completion.
func (f *ShardFlag) AddTo(cmd *cobra.Command, usage string) {
	cmd.Flags().Var(f, "shard", usage)
	cli.Complete(cmd, "shard", completeShards)
}

// OfPeople is the usage of the flag where people ask.
const OfPeople = "on a cluster: only this shard of the mesh"

// OfJournal is the usage of the flag where one journal is read.
const OfJournal = "on a cluster: the shard, if the mesh has several"

// Among returns the shards that are meant, of a mesh of n.
func (f *ShardFlag) Among(n int) ([]int, error) {
	switch {
	case f.Named && f.number >= n:
		return nil, cli.Usagef("--shard: the mesh has no shard %d", f.number).WithHint("%s", shardsThere(n))
	case f.Named:
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
		return "it has only shard 0"
	}
	return fmt.Sprintf("it has the shards 0 to %d", n-1)
}

// completeShards completes the shards of the mesh that a command line is about.
func completeShards(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	mesh, err := LoadMesh(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var numbers []string
	for shard := range mesh.Shards() {
		numbers = append(numbers, strconv.Itoa(shard))
	}
	return numbers, cobra.ShellCompDirectiveNoFileComp
}

// Of returns the shards that are meant of the mesh of a folder, and the definitions that
// say who is on which. Only a mesh on a cluster has several. Where its definitions
// cannot be loaded, those count that gateways have logins to.
func (f *ShardFlag) Of(folder meshdir.Folder, def *bcp.Mesh, store *accounts.Store, clustered bool) (shards []int, places *bcp.Mesh, err error) {
	n := 1
	if clustered {
		if places = def; places == nil {
			places = folder.Definition()
		}
		if places != nil {
			n = places.Shards()
		} else if n, err = shardsOfGateways(store); err != nil {
			return nil, nil, err
		}
	}
	shards, err = f.Among(n)
	return shards, places, err
}

func shardsOfGateways(store *accounts.Store) (int, error) {
	remotes, err := store.Remotes()
	if err != nil {
		return 0, cli.Failf("%s", err)
	}
	n := 1
	for _, r := range remotes {
		n = max(n, accounts.ShardOf(r.Account)+1)
	}
	return n, nil
}

// On returns the shards that have to do with an agent: its own, or all that the client
// speaks to where it is not known, or is nobody.
func (c *Client) On(agent bcp.AgentName) []int {
	if len(c.Shards) > 1 && c.Places != nil {
		if a, ok := c.Places.Agent(agent); ok {
			return []int{a.Shard}
		}
	}
	return c.Shards
}

// One returns the only shard that has to do with an agent.
func (c *Client) One(agent bcp.AgentName) (int, error) {
	shards := c.On(agent)
	if len(shards) > 1 {
		return 0, cli.Usagef("the mesh has %d shards, and the definitions do not determine one", len(shards)).WithHint("name one with --shard")
	}
	return shards[0], nil
}

// OfShard returns the definitions of a shard, if they are at hand.
func (c *Client) OfShard(shard int) *bcp.Mesh {
	if c.Definition == nil || c.Places == nil {
		return c.Definition
	}
	return c.Definition.OfShard(shard)
}

// Operator is the operator's connection to a shard.
func (c *Client) Operator(shard int) *agents.Operator {
	return agents.NewOperator(c.Connection).OnShard(shard)
}

// Auditor is the auditor's connection to a shard.
func (c *Client) Auditor(shard int) *agents.Auditor {
	return agents.NewAuditor(c.Connection).OnShard(shard)
}

// Sharded is something of one shard. Its JSON names the shard unless it is 0.
type Sharded[T any] struct {
	Of    T   `json:",embed"`
	Shard int `json:"shard,omitzero"`

	Several bool `json:"-"` // shards were asked
}

// Cell names the shard in a table, where several were asked.
func (s *Sharded[T]) Cell() string {
	if !s.Several {
		return ""
	}
	return strconv.Itoa(s.Shard)
}

// Label names the shard in front of a line, where several were asked.
func (s *Sharded[T]) Label() string {
	if !s.Several {
		return ""
	}
	return "shard " + s.Cell() + ": "
}

// OnShards asks shards at once, and returns in their order what they say. Where some of
// several fail, the error says which, and the others are returned all the same.
func OnShards[T any](ctx context.Context, shards []int, ask func(ctx context.Context, shard int) (T, error)) ([]Sharded[T], error) {
	answers, errs := make([]T, len(shards)), make([]error, len(shards))
	var asking sync.WaitGroup
	for i, shard := range shards {
		asking.Go(func() { answers[i], errs[i] = ask(ctx, shard) })
	}
	asking.Wait()
	if len(shards) == 1 && errs[0] != nil {
		return nil, errs[0]
	}
	var said []Sharded[T]
	for i, shard := range shards {
		if errs[i] == nil {
			said = append(said, Sharded[T]{answers[i], shard, len(shards) > 1})
		}
	}
	err := OfShards(shards, errs)
	var f *cli.Failure
	if errors.As(err, &f) && len(said) > 0 {
		f.Code = cli.ExitPartly
	}
	return said, err
}

// OfShards makes one failure of those of several shards.
func OfShards(shards []int, errs []error) error {
	var whole *cli.Failure
	for i, err := range errs {
		if err = meshdir.Failure(err); err == nil {
			continue
		}
		var f *cli.Failure
		if !errors.As(err, &f) {
			return err // it was interrupted
		}
		if whole == nil {
			whole = &cli.Failure{Code: f.Code, Hint: f.Hint}
		} else {
			whole.Message += "; "
		}
		whole.Message += fmt.Sprintf("shard %d: %s", shards[i], f.Message)
	}
	if whole == nil {
		return nil
	}
	return whole
}

// ListOfShards asks shards as OnShards does, and makes one list of what they list: nil
// where none answers.
func ListOfShards[T any](ctx context.Context, shards []int, ask func(ctx context.Context, shard int) ([]T, error)) ([]Sharded[T], error) {
	lists, missing := OnShards(ctx, shards, ask)
	if lists == nil {
		return nil, missing
	}
	return OneList(lists), missing
}

// ShowList shows a list of [ListOfShards], or says that there is none. If no shard
// answered there is nothing to show.
func ShowList[T any](o *cli.Output, list []Sharded[T], none string, table func(*cli.Output, []Sharded[T])) error {
	switch {
	case list == nil:
	case o.JSON:
		return o.Value(list)
	case len(list) == 0:
		o.Talkf("%s", none)
	default:
		table(o, list)
	}
	return nil
}

// OneList makes one list of those of shards.
func OneList[T any](lists []Sharded[[]T]) []Sharded[T] {
	all := []Sharded[T]{}
	for i := range lists {
		for _, one := range lists[i].Of {
			all = append(all, Sharded[T]{one, lists[i].Shard, lists[i].Several})
		}
	}
	return all
}

// OfAll are the things of a list without their shards.
func OfAll[T any](list []Sharded[T]) []T {
	all := make([]T, len(list))
	for i := range list {
		all[i] = list[i].Of
	}
	return all
}

// Alone is a list of a mesh on one shard.
func Alone[T any](list []T) []Sharded[T] { return OneList([]Sharded[[]T]{{Of: list}}) }

// TableOfShards is table with the shard in front of each row: its column is left out
// where no row has one.
func TableOfShards(o *cli.Output, header []string, rows [][]string) {
	if slices.ContainsFunc(rows, func(row []string) bool { return row[0] != "" }) {
		o.Table(append([]string{"shard"}, header...), rows)
		return
	}
	without := make([][]string, len(rows))
	for i, row := range rows {
		without[i] = row[1:]
	}
	o.Table(header, without)
}

// audited is a record of the audit of a shard.
type audited = Sharded[agents.AuditRecord]

// Records returns what the audits of shards have of a selection: the past in the order
// of time, and then, if the selection follows, what is new as it comes. A record
// holds until the next.
func (c *Client) Records(ctx context.Context, shards []int, of func(ctx context.Context, shard int) (agents.Selection, error)) iter.Seq2[*audited, error] {
	return func(yield func(*audited, error) bool) {
		selections, err := OnShards(ctx, shards, of)
		if err != nil {
			yield(nil, meshdir.Failure(err))
			return
		}
		if len(shards) == 1 {
			one := audited{Shard: shards[0]}
			for r, err := range c.Auditor(shards[0]).Select(ctx, selections[0].Of) {
				one.Of = r
				if !yield(&one, meshdir.Failure(err)) {
					return
				}
			}
			return
		}
		if c.mergeByTime(ctx, selections, yield) && selections[0].Of.Follow {
			c.follow(ctx, selections, yield)
		}
	}
}

// mergeByTime yields in the order of time, and moves the selections past it. It is false
// where nothing more is wanted.
func (c *Client) mergeByTime(ctx context.Context, selections []Sharded[agents.Selection], yield func(*audited, error) bool) bool {
	sources := make([]iter.Seq2[*audited, error], len(selections))
	for i := range selections {
		s := &selections[i]
		selection := s.Of
		selection.Follow = false
		sources[i] = func(yield func(*audited, error) bool) {
			for r, err := range c.Auditor(s.Shard).Select(ctx, selection) {
				if err != nil {
					err = meshdir.Failure(fmt.Errorf("shard %d: %w", s.Shard, err))
				}
				if !yield(&audited{r, s.Shard, true}, err) {
					return
				}
			}
		}
	}
	for one, err := range ByTime(sources, func(one *audited) time.Time { return one.Of.Decision.At() }) {
		if err != nil {
			yield(nil, err)
			return false
		}
		i := slices.IndexFunc(selections, func(s Sharded[agents.Selection]) bool { return s.Shard == one.Shard })
		selections[i].Of.From = one.Of.Sequence + 1
		if !yield(one, nil) {
			return false
		}
	}
	return true
}

// ByTime yields what sources have in the order of time, each of which is in that order,
// up to the first error.
func ByTime[T any](sources []iter.Seq2[T, error], at func(T) time.Time) iter.Seq2[T, error] {
	type source struct {
		next func() (T, error, bool)
		head T
	}
	if len(sources) == 1 {
		return sources[0]
	}
	return func(yield func(T, error) bool) {
		var open []*source
		// advance is false if the source has ended.
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
func (c *Client) follow(ctx context.Context, selections []Sharded[agents.Selection], yield func(*audited, error) bool) {
	type heard struct {
		record *audited
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	all := make(chan heard)
	var following sync.WaitGroup
	for _, s := range selections {
		following.Go(func() {
			for r, err := range c.Auditor(s.Shard).Select(ctx, s.Of) {
				select {
				case all <- heard{&audited{r, s.Shard, true}, meshdir.Failure(err)}:
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
