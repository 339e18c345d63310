// Package bcptest helps to test implementations of the protocol: vectors of
// answers with their verdicts, and generators of specs, answers, spellings and
// damage for [pgregory.net/rapid].
//
// The vectors are in bcp/testdata/vectors. The shortest correct use is
//
//	groups, err := bcptest.Load(os.DirFS("testdata/vectors"))
//	for _, g := range groups {
//		v, err := g.Compile()
//		for _, c := range g.Cases {
//			got := g.Run(v, c) // compare with c.Want
//		}
//	}
//
// # The files
//
// A file is a txtar archive (golang.org/x/tools/txtar) about one spec. Its
// comment names the rules that it tests. Its first sections are
//
//   - settings: optional, see [Settings].
//   - spec: the spec in JSON, exactly as it would be asked.
//   - prices: what the spec costs, or "invalid" and the error of its key.
//
// and then each case is two sections, the answer alone under NAME.json (text;
// the last newline is not part of it), NAME.hex (JSON in hexadecimal, for bytes
// that a text file cannot hold) or NAME.msgpack (MessagePack in hexadecimal),
// and NAME.want with the verdict as [Describe] writes it. A file about specs
// has no answers but NAME.spec, and prices in NAME.want.
//
// Nothing here is used by production code.
package bcptest
