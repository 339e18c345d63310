package state

import (
	"cmp"
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract/watch"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// remembered is what lists its fields that a checkpoint has, in their order there: all but
// what follows from others or from the definitions, and what was said, which is apart.
type remembered interface{ fields() []any }

// fieldsOf lists the fields of what is remembered, nil of a plain value.
func fieldsOf(p any) []any {
	switch p := p.(type) {
	case remembered:
		return p.fields()
	case *bcp.Balance:
		return []any{&p.Settled, &p.Reserved, &p.Pushed, &p.SettledCapacity, &p.ReservedCapacity, &p.Cat2Queries}
	case *bcp.SavedRun:
		return []any{&p.At, &p.Open}
	case *bcp.Pushed:
		return []any{&p.Anomalies}
	case *bcp.Release:
		return []any{&p.Reader, &p.Query, &p.Subscription, &p.Category, &p.Outcome, &p.Nominal, &p.Time}
	}
	return nil
}

// take has one of two that list the same fields remember what the other does.
func take(to, from remembered) {
	source := from.fields()
	for i, p := range to.fields() {
		if part, ok := p.(remembered); ok {
			take(part, source[i].(remembered))
		} else if v := reflect.ValueOf(p); v.Kind() == reflect.Pointer {
			v.Elem().Set(reflect.ValueOf(source[i]).Elem())
		}
	}
}

// coder writes what is remembered, or reads it: the same list for both. Each object is a
// list of its fields, and each map one of its entries, sorted by key. After an error it
// does nothing.
type coder struct {
	enc  *msgpack.Encoder // or
	dec  *msgpack.Decoder
	keys []bcp.ChannelKey // all, sorted: the rest names a channel by its place
	err  error
}

// coded has a form of its own.
type coded interface{ code(c *coder) }

func (c *coder) fail() {
	if c.err == nil {
		c.err = errSaved
	}
}

func (c *coder) object(fields []any) {
	if n := c.length(len(fields)); n != len(fields) {
		c.fail()
	}
	for _, p := range fields {
		c.value(p)
	}
}

// length begins a list.
func (c *coder) length(n int) int {
	switch {
	case c.err != nil:
		return 0
	case c.enc != nil:
		c.err = c.enc.EncodeArrayLen(n)
	default:
		n, c.err = c.dec.DecodeArrayLen()
	}
	return n
}

func (c *coder) number(n int64) int64 {
	switch {
	case c.err != nil:
	case c.enc != nil:
		c.err = c.enc.EncodeInt(n)
	default:
		n, c.err = c.dec.DecodeInt64()
	}
	return n
}

func (c *coder) bytes(b []byte) []byte {
	if c.enc != nil {
		c.err = c.enc.EncodeBytes(b)
		return b
	}
	if b, c.err = c.dec.DecodeBytes(); len(b) == 0 {
		return nil
	}
	return b
}

// value writes or reads what p points to, or has its own form.
func (c *coder) value(p any) {
	if c.err != nil {
		return
	}
	switch p := p.(type) {
	case *int64:
		*p = c.number(*p)
	case *[]byte:
		*p = c.bytes(*p)
	case coded:
		p.code(c)
	case *bcp.ChannelKey:
		c.key(p)
	case *time.Time:
		*p = time.Unix(0, c.number(p.UnixNano())).UTC()
	case **guard.Pool:
		opaque(c, p, (*guard.Pool).Save, guard.RestorePool)
	case **watch.Watch:
		opaque(c, p, (*watch.Watch).Save, watch.Restore)
	default:
		if fields := fieldsOf(p); fields != nil {
			c.object(fields)
		} else {
			c.plain(reflect.ValueOf(p).Elem())
		}
	}
}

// opaque writes or reads what another package has a form for.
func opaque[T any](c *coder, p *T, save func(T) ([]byte, error), restore func([]byte) (T, error)) {
	if c.enc == nil {
		if b := c.bytes(nil); c.err == nil {
			*p, c.err = restore(b)
		}
		return
	}
	var b []byte
	if b, c.err = save(*p); c.err == nil {
		c.bytes(b)
	}
}

// key writes or reads the place of a channel, -1 for none.
func (c *coder) key(key *bcp.ChannelKey) {
	place, known := slices.BinarySearchFunc(c.keys, *key, bcp.ChannelKey.Compare)
	if !known {
		place = -1
	}
	switch place := c.number(int64(place)); {
	case c.enc != nil:
	case place < -1 || place >= int64(len(c.keys)):
		c.fail()
	case place == -1:
		*key = bcp.ChannelKey{}
	default:
		*key = c.keys[place]
	}
}

// plain writes or reads a word, a number, or a list or map of what is remembered.
func (c *coder) plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int64:
		n := c.number(v.Int())
		if v.OverflowInt(n) {
			c.fail()
		}
		v.SetInt(n)
	case reflect.Uint8, reflect.Uint64:
		n := uint64(c.number(int64(v.Uint())))
		if v.OverflowUint(n) {
			c.fail()
		}
		v.SetUint(n)
	case reflect.Bool:
		if c.enc != nil {
			c.err = c.enc.EncodeBool(v.Bool())
			return
		}
		var b bool
		b, c.err = c.dec.DecodeBool()
		v.SetBool(b)
	case reflect.String:
		if c.enc != nil {
			c.err = c.enc.EncodeString(v.String())
			return
		}
		var s string
		s, c.err = c.dec.DecodeString()
		v.SetString(s)
	case reflect.Array:
		if b := c.bytes(v.Bytes()); len(b) == v.Len() {
			reflect.Copy(v, reflect.ValueOf(b))
		} else {
			c.fail()
		}
	case reflect.Slice:
		n := c.length(v.Len())
		for i := range n {
			if c.enc == nil && c.err == nil {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			}
			if c.err == nil {
				c.value(v.Index(i).Addr().Interface())
			}
		}
	case reflect.Map:
		c.entries(v)
	default:
		panic("a checkpoint has no " + v.Type().String())
	}
}

// entries writes or reads a map, by pointers too.
func (c *coder) entries(m reflect.Value) {
	keys := m.MapKeys()
	slices.SortFunc(keys, compareKeys)
	n := c.length(len(keys))
	if c.enc == nil {
		m.Set(reflect.MakeMap(m.Type()))
	}
	elem := m.Type().Elem()
	pointed := elem.Kind() == reflect.Pointer
	if pointed {
		elem = elem.Elem()
	}
	var last reflect.Value
	for i := 0; i < n && c.err == nil; i++ {
		key, value := reflect.New(m.Type().Key()), reflect.New(elem)
		if c.enc != nil {
			key.Elem().Set(keys[i])
			value.Elem().Set(reflect.Indirect(m.MapIndex(keys[i])))
		}
		c.object(entry(key.Interface(), value.Interface()))
		if c.enc != nil || c.err != nil {
			continue
		}
		if i > 0 && compareKeys(last, key.Elem()) >= 0 {
			c.fail()
		}
		if last = key.Elem(); pointed {
			m.SetMapIndex(last, value)
		} else {
			m.SetMapIndex(last, value.Elem())
		}
	}
}

// compareKeys orders the keys of a map: words, numbers, or structs of them.
func compareKeys(a, b reflect.Value) (order int) {
	switch a.Kind() {
	case reflect.String:
		return cmp.Compare(a.String(), b.String())
	case reflect.Uint64:
		return cmp.Compare(a.Uint(), b.Uint())
	}
	for i := 0; i < a.NumField() && order == 0; i++ {
		order = compareKeys(a.Field(i), b.Field(i))
	}
	return order
}

// entry lists what is written of a key and its value.
func entry(key, value any) (list []any) {
	for _, p := range [...]any{key, value} {
		if fields := fieldsOf(p); fields != nil {
			list = append(list, fields...)
		} else {
			list = append(list, p)
		}
	}
	return list
}

// table writes or reads entries whose map has more of them, or a form of its own. All of
// them go through the same two variables, since there may be a million. Put is false for
// one that may not follow those before.
func table[K, V any](c *coder, n int, all iter.Seq2[K, V], put func(K, V) bool) {
	var key, noKey K
	var value, noValue V
	fields := entry(&key, &value)
	n = c.length(n)
	if c.enc != nil {
		for key, value = range all {
			c.object(fields)
		}
		return
	}
	for range n {
		if key, value = noKey, noValue; c.err != nil {
			return
		}
		if c.object(fields); c.err == nil && !put(key, value) {
			c.fail()
		}
	}
}

// each are the entries of some keys.
func each[K, V any](keys []K, get func(K) V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range keys {
			if !yield(key, get(key)) {
				return
			}
		}
	}
}
