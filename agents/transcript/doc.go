// Package transcript is the record of a model-run agent: what it was asked, each call of its model and of its tools with what
// came of it, and its answers. It is lines of JSON, the first of which names the format.
//
// A transcript holds hostile text in the clear. It holds no creds and no key: neither passes through what is recorded here.
package transcript
