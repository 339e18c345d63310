package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// vault has what was said of a state, by channel and day, in the order in which the state
// comes by it (ADR 0013). Of what was erased it gives nothing, as erased records do.
type vault struct {
	parts   map[part][][]byte
	opened  bool // it gives, and else takes
	damaged bool
}

type part struct {
	channel bcp.ChannelKey
	day     int64
}

// keep takes some bytes or a word, or gives them back.
func keep[T ~[]byte | ~string](v *vault, channel bcp.ChannelKey, at int64, p *T) {
	of := part{channel, at / int64(24*time.Hour)}
	kept, ok := v.parts[of]
	switch {
	case !v.opened:
		v.parts[of] = append(kept, []byte(*p))
	case !ok: // it was erased, or nothing was said
	case len(kept) == 0:
		v.damaged = true
	default:
		if v.parts[of] = kept[1:]; len(kept[0]) > 0 {
			*p = T(kept[0])
		}
	}
}

func (v *vault) save() ([]byte, error) {
	said := []bcp.Said{}
	for _, of := range slices.SortedFunc(maps.Keys(v.parts), func(a, b part) int {
		return cmp.Or(a.channel.Compare(b.channel), cmp.Compare(a.day, b.day))
	}) {
		if !slices.ContainsFunc(v.parts[of], func(b []byte) bool { return len(b) > 0 }) {
			continue
		}
		kept := v.parts[of]
		b, err := bcp.AppendSaved(nil, &kept)
		if err != nil {
			return nil, err
		}
		said = append(said, bcp.Said{Controller: of.channel.Controller, Reader: of.channel.Reader, Day: of.day, Bytes: b})
	}
	return bcp.AppendSaid(nil, said)
}

func openVault(said []bcp.Said) (*vault, error) {
	v := &vault{parts: map[part][][]byte{}, opened: true}
	for i := range said {
		p := &said[i]
		if p.Sealed {
			return nil, fmt.Errorf("%w: it is sealed", ErrCheckpoint)
		}
		of := part{bcp.ChannelKey{Controller: p.Controller, Reader: p.Reader}, p.Day}
		var kept [][]byte
		if rest, err := bcp.CutSaved(p.Bytes, &kept); err != nil || len(rest) > 0 || len(kept) == 0 || v.parts[of] != nil {
			return nil, errSaved
		}
		v.parts[of] = kept
	}
	return v, nil
}

// emptied reports whether the vault gave back all that it had.
func (v *vault) emptied() bool {
	for _, kept := range v.parts {
		v.damaged = v.damaged || len(kept) > 0
	}
	return !v.damaged
}

// said has the vault take what agents said, but for what people read in the audit, or give
// it back.
func (s *State) said(v *vault, runs []bcp.SavedRun) {
	for i := range runs {
		keep(v, bcp.ChannelKey{}, runs[i].At, &runs[i].Said)
	}
	for _, name := range slices.Sorted(maps.Keys(s.allAgents)) {
		a := s.allAgents[name]
		release := func(r *bcp.Release) {
			keep(v, bcp.ChannelKey{Controller: name, Reader: r.Reader}, r.Time.UnixNano(), &r.Content)
		}
		for i := range a.session.releases {
			release(&a.session.releases[i])
		}
		for i := range a.arrivals {
			release(&a.arrivals[i].release)
		}
		for i := range a.notices {
			n := &a.notices[i]
			keep(v, bcp.ChannelKey{Controller: n.peer, Reader: name}, n.at, &n.result.PushID)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.allChannels), bcp.ChannelKey.Compare) {
		ch := s.allChannels[key]
		pushed := func(at int64, pushes []bcp.Pushed) {
			for i := range pushes {
				keep(v, key, at, &pushes[i].Response)
			}
		}
		for i := range ch.outbox {
			out := &ch.outbox[i]
			keep(v, key, out.since, &out.Response)
			pushed(out.since, out.Batch)
		}
		for _, id := range slices.Sorted(maps.Keys(ch.pushes)) {
			batches := ch.pushes[id].batches
			for i := range batches {
				pushed(batches[i].since, batches[i].pushes)
			}
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(s.open), func(a, b bcp.QueryID) int {
		return cmp.Or(cmp.Compare(s.open[a].accepted, s.open[b].accepted), cmp.Compare(a, b))
	}) {
		q := s.open[id]
		keep(v, q.channel, q.since, &q.spec)
	}
	for _, id := range slices.Sorted(maps.Keys(s.items)) {
		it := s.items[id]
		keep(v, it.Channel(), it.Since.UnixNano(), &it.content)
		keep(v, it.Channel(), it.Since.UnixNano(), &it.client)
	}
	for i := range s.decided {
		d := &s.decided[i]
		keep(v, d.channel, d.at, &d.content)
	}
}
