package redteam

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// refusedPushes holds raw bytes, pushed on a subscription, to being refused.
func (r *Rig) refusedPushes(reader bcp.AgentName, id string, bodies map[string][]byte) {
	s := r.Client(reader, bcp.RoleReader)
	for name, body := range bodies {
		if result := s.RequestRaw(subjects.Push(reader, main, bcp.SubscriptionID(id)), body); result.Text("success") != "" || result.Text("status") != "refused" {
			r.Broken("%s is %s", name, result.Data)
		}
	}
}

// packed is the MessagePack of a push on alerts, but for the answer.
func packed(answer []byte) []byte {
	text := func(s string) []byte { return append([]byte{0xa0 | byte(len(s))}, s...) }
	b := []byte{0x84}
	for _, part := range [][]byte{
		text("type"), text("bcp_response"), text("subscription_id"), text("alerts"), text("controller"), text("main"), text("response"), answer,
	} {
		b = append(b, part...)
	}
	return b
}

func urgent(value ...byte) []byte {
	return append([]byte{0x81, 0xa6, 'u', 'r', 'g', 'e', 'n', 't'}, value...)
}

func long(head byte, n uint32, rest ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{head}, n), rest...)
}

func decoders() []Attack {
	return []Attack{
		{ID: "A-LEN", Class: ClassDecoder, Text: "claims lengths of gigabytes in MessagePack", Property: "refused, and no memory is taken for them", Run: func(r *Rig) {
			r.Client(packer, bcp.RoleReader)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			bodies := map[string][]byte{}
			for name, head := range map[string]byte{"str32": 0xdb, "bin32": 0xc6, "array32": 0xdd, "map32": 0xdf, "ext32": 0xc9} {
				for _, n := range []uint32{1 << 31, 1<<32 - 1, 1 << 24} {
					bodies[fmt.Sprintf("%s of %d", name, n)] = packed(urgent(long(head, n)...))
					bodies[fmt.Sprintf("%s of %d as the message", name, n)] = long(head, n)
				}
			}
			r.refusedPushes(packer, "alerts", bodies)
			runtime.ReadMemStats(&after)
			if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 256<<20 {
				r.Broken("%d MB were taken for %d messages", grown>>20, len(bodies))
			}
		}},
		{ID: "A-MPKEY", Class: ClassDecoder, Text: "uses keys that are double, no text, or of a float", Property: "refused", Run: func(r *Rig) {
			key := []byte{0xa6, 'u', 'r', 'g', 'e', 'n', 't'}
			r.refusedPushes(packer, "alerts", map[string][]byte{
				"twice":     packed(append(append([]byte{0x82}, append(bytes.Clone(key), 0xc3)...), append(bytes.Clone(key), 0xc2)...)),
				"bin":       packed([]byte{0x81, 0xc4, 6, 'u', 'r', 'g', 'e', 'n', 't', 0xc3}),
				"integer":   packed([]byte{0x81, 0x01, 0xc3}),
				"nil":       packed([]byte{0x81, 0xc0, 0xc3}),
				"NaN":       packed([]byte{0x81, 0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc3}),
				"map":       packed([]byte{0x81, 0x80, 0xc3}),
				"str8":      packed([]byte{0x81, 0xd9, 6, 'u', 'r', 'g', 'e', 'n', 't', 0xc3}),
				"map16":     packed([]byte{0xde, 0, 1, 0xa6, 'u', 'r', 'g', 'e', 'n', 't', 0xc3}),
				"no member": packed([]byte{0x80}),
				"trailing":  append(packed(urgent(0xc3)), 0xc3),
			})
		}},
		{ID: "A-BINSTR", Class: ClassDecoder, Text: "spells values in other types of MessagePack", Property: "refused", Run: func(r *Rig) {
			r.refusedPushes(packer, "alerts", map[string][]byte{
				"bin": packed(urgent(0xc4, 1, 1)), "1": packed(urgent(1)), "nil": packed(urgent(0xc0)), "ext": packed(urgent(0xd4, 1, 1)), "time": packed(urgent(0xd6, 0xff, 0, 0, 0, 1)),
				"float": packed(urgent(0xca, 0x3f, 0x80, 0, 0)), "text": packed(urgent(0xa4, 't', 'r', 'u', 'e')), "never used": packed(urgent(0xc1)), "array": packed([]byte{0x91, 0xc3}),
			})
		}},
		{ID: "A-UTF8", Class: ClassDecoder, Text: "sends bytes that are no UTF-8", Property: "refused, and not replaced", Run: func(r *Rig) {
			bodies := map[string][]byte{}
			for _, bad := range []string{"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "\xf0\x9f\x98", "\x80"} {
				bodies[fmt.Sprintf("%q as JSON", bad)] = []byte(`{"type":"bcp_response","subscription_id":"notes","controller":"main","response":{"note":"pay` + bad + `"}}`)
			}
			r.refusedPushes(mailer, "notes", bodies)
			r.refusedPushes(packer, "alerts", map[string][]byte{"no UTF-8 as a key": packed([]byte{0x81, 0xa2, 0xff, 0xfe, 0xc3})})
		}},
		{ID: "A-CTRL", Class: ClassDecoder, Text: "sends control characters, raw and escaped", Property: "none arrives", Run: func(r *Rig) {
			var texts []string
			for _, c := range []string{"\x00", "\x07", "\x08", "\x1b[31m", "\x1b]8;;http://x\x07", "\r", "\x7f", "\u0085", "\u009b31m", "\u2028", "\ufff9", "\u202e"} {
				texts = append(texts, "pay"+c+"now", "pay"+c)
			}
			r.spellings(mailer, askNote, notes(texts...)) // the oracle checks what arrived
			r.refusedPushes(mailer, "notes", map[string][]byte{"raw NUL": []byte("{\"type\":\"bcp_response\",\"subscription_id\":\"notes\",\"controller\":\"main\",\"response\":{\"note\":\"a\x00b\"}}")})
		}},
		{ID: "A-SNIFF", Class: ClassDecoder, Text: "sends JSON where MessagePack is agreed, and the other way round", Property: "refused", Run: func(r *Rig) {
			r.refusedPushes(packer, "alerts", map[string][]byte{"JSON": []byte(`{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":{"urgent":true}}`)})
			r.refusedPushes(mailer, "alerts", map[string][]byte{"MessagePack": packed(urgent(0xc3))})
		}},
		{ID: "A-HASH", Class: ClassDecoder, Text: "sends very many keys, deep nesting and long numbers", Property: "refused before they cost anything", Run: func(r *Rig) {
			push := func(response string) []byte {
				return []byte(`{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":` + response + `}`)
			}
			var keys strings.Builder
			keys.WriteString(`{"urgent":true`)
			for i := range 60 {
				fmt.Fprintf(&keys, `,"k%d":1`, i)
			}
			keys.WriteString("}")
			r.refusedPushes(mailer, "alerts", map[string][]byte{
				"60 keys": push(keys.String()), "nested": push(strings.Repeat(`{"a":`, 90) + "1" + strings.Repeat("}", 90)), "nested lists": push(strings.Repeat("[", 400) + strings.Repeat("]", 400)),
				"a long number": push(`{"urgent":` + strings.Repeat("9", 700) + `}`), "a great exponent": push(`{"urgent":1e999999999}`), "a long text": push(`{"urgent":"` + strings.Repeat("a", 700) + `"}`),
			})
		}},
		{ID: "A-BOM", Class: ClassDecoder, Text: "sends byte order marks, comments, trailing commas and two values", Property: "refused", Run: func(r *Rig) {
			good := `{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":{"urgent":true}}`
			r.refusedPushes(mailer, "alerts", map[string][]byte{
				"BOM": []byte("\ufeff" + good), "UTF-16": {'{', 0, '}', 0}, "comment": []byte("/*x*/" + good), "two": []byte(good + good), "comma": []byte(strings.Replace(good, "true}", "true,}", 1)), "array": []byte("[" + good + "]"),
				"single quotes": []byte(strings.ReplaceAll(good, `"`, "'")), "empty": {}, "null": []byte("null"), "NUL": append([]byte(good), 0), "cut": []byte(good[:len(good)-1]),
			})
		}},
		{ID: "A-SIZE", Class: ClassDecoder, Text: "sends messages up to and beyond the limit", Property: "refused or the connection ends; nobody else notices", Run: func(r *Rig) {
			for _, size := range []int{2 << 10, 64 << 10, 900 << 10, 2 << 20} {
				s := r.Client(mailer, bcp.RoleReader)
				if s.conn.Publish(subjects.Push(mailer, main, "alerts"), bytes.Repeat([]byte("x"), size)) == nil {
					_ = s.conn.FlushTimeout(patience) // it may be cut off
				}
			}
		}},
		{ID: "A-RANDOM", Class: ClassDecoder, Text: "sends random and mutated bytes on every subject that it may use", Property: "the gateway goes on, and nothing arrives that is not a valid value", Run: func(r *Rig) {
			seeds := map[bcp.AgentName][]byte{mailer: []byte(`{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":{"urgent":"no"}}`), packer: packed(urgent(0xa2, 'n', 'o'))}
			for _, reader := range []bcp.AgentName{mailer, packer} {
				s := r.Client(reader, bcp.RoleReader)
				for range 400 {
					body := bytes.Clone(seeds[reader])
					for range 1 + r.rand.IntN(6) {
						body[r.rand.IntN(len(body))] = byte(r.rand.IntN(256))
					}
					if r.rand.IntN(3) == 0 {
						body = body[:r.rand.IntN(len(body))]
					}
					for _, id := range []string{"alerts", "notes", "digest"} {
						if s.conn.Publish(subjects.Push(reader, main, bcp.SubscriptionID(id)), body) != nil {
							s = r.Client(reader, bcp.RoleReader)
						}
					}
				}
				if s.conn.IsConnected() {
					_ = s.conn.FlushTimeout(patience) // a flood may end it
				}
			}
		}},
	}
}
