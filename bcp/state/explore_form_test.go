package state_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Two worlds are the same if they differ in names alone: in random ids, in the
// numbers of decisions, in digests of the journal. The form of a state is its
// checkpoint without them: ids are taken out, to be numbered as they come up in
// the whole world, and numbers of decisions give way to their order.

// idMark begins every id that the search makes; idSize letters and digits follow.
const (
	idMark = "Zz"
	idSize = 7
)

// form is a state without names.
type form struct {
	shape [16]byte
	ids   []string // in the order in which they stand there
}

// former takes names out. Places are where a checkpoint has the number of a decision,
// or a digest of the journal.
type former struct{ places map[string]bool }

// newFormer finds the places: it makes the same history twice, once with a record
// more in front. Whatever differs then is a number of a decision or a digest of the
// journal, and nothing else in a state may depend on them.
func newFormer() former {
	f := former{places: make(map[string]bool)}
	compare(probe(1), probe(2), "", f.places)
	return f
}

// probe is a checkpoint after some starts and a history that leaves something in
// every list which has numbers of decisions.
func probe(starts int) any {
	s := must(state.New(configuration()))
	moments := 0
	moment := func() bcp.Moment {
		moments++
		return bcp.Moment{Now: midnight, Fresh: fmt.Sprintf("%sA%06d", idMark, moments), Salt: [16]byte{1, byte(moments)}}
	}
	commit := func(d bcp.Decision) {
		if err := d.Seal(sealingKey); err != nil {
			panic(err)
		}
		if err := s.Apply(&d, bcp.RecordDigest(must(bcp.EncodeDecision(&d)))); err != nil {
			panic(err)
		}
	}
	for range starts {
		commit(s.DecideStart(bcp.Moment{Now: midnight, Salt: [16]byte{1}}, "test"))
	}
	for n := range int8(2) {
		d, _, _ := message{kind: ask, n: n}.decide(s, moment(), false, 0)
		commit(d)
	}
	d, _, _ := message{kind: answer, id: string(s.OpenQueries(mail)[0])}.decide(s, moment(), false, 0)
	commit(d)
	return treeOf(s)
}

// treeOf is a checkpoint, but for one member: how much of the journal is whose grows with
// each record, and nothing is decided by it where the journal has no limit. In its place is
// what was said.
func treeOf(s *state.State) any {
	parts, b, err := bcp.CutSaid(must(s.Checkpoint()))
	if err != nil {
		panic(err)
	}
	var tree map[string]any
	var version int
	if err := msgpack.Unmarshal(must(bcp.CutSaved(b, &version)), &tree); err != nil {
		panic(err)
	}
	if tree["share"] == nil {
		panic("a checkpoint has no share")
	}
	var said []any
	for i := range parts {
		var part []any
		if err := msgpack.Unmarshal(parts[i].Bytes, &part); err != nil {
			panic(err)
		}
		said = append(said, string(parts[i].Controller), string(parts[i].Reader), parts[i].Day, part)
	}
	tree["share"] = said
	return tree
}

func compare(a, b any, path string, differ map[string]bool) {
	if one, ok := a.(map[string]any); ok {
		other, _ := b.(map[string]any)
		for key := range one {
			compare(one[key], other[key], path+"/"+key, differ)
		}
		for key := range other {
			compare(one[key], other[key], path+"/"+key, differ)
		}
		return
	}
	x, isList := a.([]any)
	y, alsoList := b.([]any)
	if !isList || !alsoList || len(x) != len(y) {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			differ[path] = true
		}
		return
	}
	for i := range x {
		compare(x[i], y[i], path+"/*", differ)
	}
}

// of returns the form of a state.
func (f *former) of(s *state.State) form {
	leaves := f.leaves(nil, treeOf(s), "")
	var numbers []uint64
	for _, l := range leaves {
		if n, ok := asNumber(l.value); ok && l.place {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	var b []byte
	for _, l := range leaves {
		switch n, ok := asNumber(l.value); {
		case ok && l.place:
			at, _ := slices.BinarySearch(numbers, n)
			b = binary.BigEndian.AppendUint64(append(b, '#'), uint64(at))
		case ok:
			b = binary.BigEndian.AppendUint64(append(b, 'n'), n)
		case l.place: // a digest
			b = append(b, '-')
		default:
			b = appendLeaf(b, l.value)
		}
	}
	shape, ids := nameless(b)
	return form{shape: shape, ids: ids}
}

// leaf is a value of a tree, a key or a length; place says that it is at one.
type leaf struct {
	value any
	place bool
}

func (f *former) leaves(all []leaf, v any, path string) []leaf {
	switch v := v.(type) {
	case map[string]any:
		all = append(all, leaf{value: len(v)})
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = f.leaves(append(all, leaf{value: key}), v[key], path+"/"+key)
		}
	case []any:
		all = append(all, leaf{value: len(v)})
		for _, member := range v {
			all = f.leaves(all, member, path+"/*")
		}
	default:
		all = append(all, leaf{v, f.places[path]})
	}
	return all
}

func asNumber(v any) (uint64, bool) {
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return uint64(n.Int()), true
	case n.CanUint():
		return n.Uint(), true
	}
	return 0, false
}

func appendLeaf(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(binary.BigEndian.AppendUint64(append(b, 's'), uint64(len(v))), v...)
	case []byte:
		return append(binary.BigEndian.AppendUint64(append(b, 'b'), uint64(len(v))), v...)
	default:
		return fmt.Appendf(b, "%v ", v)
	}
}

// nameless blanks the ids in b and returns them.
func nameless(b []byte) (shape [16]byte, ids []string) {
	for rest := b; ; {
		i := bytes.Index(rest, []byte(idMark))
		if i < 0 || len(rest) < i+len(idMark)+idSize {
			break
		}
		id := rest[i+len(idMark):][:idSize]
		ids = append(ids, string(id))
		for j := range id {
			id[j] = '.'
		}
		rest = rest[i+len(idMark)+idSize:]
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:]), ids
}
