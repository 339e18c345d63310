package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// vault takes what was said out of a saved state, and gives it back in the same order
// (ADR 0013). Of what was erased it gives nothing, as erased records do.
type vault struct {
	parts   map[part][][]byte
	opened  bool // it gives
	damaged bool
}

type part struct {
	channel bcp.ChannelKey
	day     int64
}

// keep takes some bytes, in whose place it leaves none, and gives them back there.
func (v *vault) keep(channel bcp.ChannelKey, at int64, b *[]byte) {
	of := part{channel, at / int64(24*time.Hour)}
	kept := v.parts[of]
	switch {
	case !v.opened && len(*b) == 0:
		*b = nil
	case !v.opened:
		if v.parts == nil {
			v.parts = map[part][][]byte{}
		}
		v.parts[of], *b = append(kept, *b), []byte{}
	case *b == nil:
	case len(*b) > 0:
		v.damaged = true
	case v.parts[of] == nil: // it was erased
		*b = nil
	case len(kept) == 0:
		v.damaged = true
	default:
		*b, v.parts[of] = kept[0], kept[1:]
	}
}

func (v *vault) save() ([]byte, error) {
	said := []bcp.Said{}
	for _, of := range slices.SortedFunc(maps.Keys(v.parts), func(a, b part) int {
		return cmp.Or(a.channel.Compare(b.channel), cmp.Compare(a.day, b.day))
	}) {
		b, err := msgpack.Marshal(v.parts[of])
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
		if err := msgpack.Unmarshal(p.Bytes, &kept); err != nil || len(kept) == 0 || v.parts[of] != nil {
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

// said has the vault keep what agents said, but for what people read in the audit.
func (saved *savedState) said(v *vault) {
	channel := func(i int) (key bcp.ChannelKey) {
		if i < 0 || i >= len(saved.Keys) {
			v.damaged = true
			return key
		}
		return saved.key(i)
	}
	for i := range saved.Runs {
		v.keep(bcp.ChannelKey{}, saved.Runs[i].At, &saved.Runs[i].Said)
	}
	for i := range saved.Agents {
		a := &saved.Agents[i]
		release := func(r *savedRelease) {
			v.keep(bcp.ChannelKey{Controller: a.Name, Reader: r.Reader}, r.Time, &r.Content)
		}
		for j := range a.Session.Releases {
			release(&a.Session.Releases[j])
		}
		for j := range a.Arrivals {
			release(&a.Arrivals[j].Release)
		}
		for j := range a.Notices {
			n := &a.Notices[j]
			v.keep(bcp.ChannelKey{Controller: n.Peer, Reader: a.Name}, n.Time, &n.PushID)
		}
	}
	for i := range saved.Channels {
		c := &saved.Channels[i]
		key := channel(c.Key)
		pushed := func(at int64, pushes []savedPushed) {
			for j := range pushes {
				v.keep(key, at, &pushes[j].Response)
			}
		}
		for j := range c.Outbox {
			o := &c.Outbox[j]
			v.keep(key, o.Since, &o.Response)
			pushed(o.Since, o.Batch)
		}
		for j := range c.Pushes {
			for k := range c.Pushes[j].Batches {
				b := &c.Pushes[j].Batches[k]
				pushed(b.Since, b.Pushes)
			}
		}
	}
	for i := range saved.Open {
		v.keep(channel(saved.Open[i].Key), saved.Open[i].Since, &saved.Open[i].Spec)
	}
	for i := range saved.Items {
		it := &saved.Items[i]
		v.keep(channel(it.Key), it.Since, &it.Content)
		v.keep(channel(it.Key), it.Since, &it.Client)
	}
	for i := range saved.Decided {
		d := &saved.Decided[i]
		v.keep(bcp.ChannelKey{Controller: d.Controller, Reader: d.Reader}, d.At, &d.Content)
	}
}
