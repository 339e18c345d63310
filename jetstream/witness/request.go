package witness

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// maxProof is how many lines a consistency proof may have (tlog-witness).
const maxProof = 63

var errMalformed = errors.New("malformed request")

// request is the body of add-checkpoint.
type request struct {
	old   int64 // size that the log believes to be the witness's newest
	proof tlog.TreeProof
	note  []byte // the checkpoint as it was signed
	checkpoint
}

// checkpoint is the text of a checkpoint; everything after the third line is opaque.
type checkpoint struct {
	origin string
	tree   tlog.Tree
}

func parseRequest(body []byte) (r request, err error) {
	line, rest, ok := bytes.Cut(body, []byte("\n"))
	old, named := strings.CutPrefix(string(line), "old ")
	if r.old, err = parseSize(old); err != nil || !ok || !named {
		return r, fmt.Errorf("%w: the first line must be \"old SIZE\"", errMalformed)
	}
	for {
		if line, rest, ok = bytes.Cut(rest, []byte("\n")); !ok {
			return r, fmt.Errorf("%w: it ends before the checkpoint", errMalformed)
		}
		if len(line) == 0 {
			break
		}
		h, err := parseHash(string(line))
		if err != nil || len(r.proof) == maxProof {
			return r, fmt.Errorf("%w: the proof must be at most %d hashes, a line each", errMalformed, maxProof)
		}
		r.proof = append(r.proof, h)
	}
	r.note = rest
	r.checkpoint, err = parseCheckpoint(rest)
	return r, err
}

func parseCheckpoint(text []byte) (c checkpoint, err error) {
	lines := strings.SplitN(string(text), "\n", 4)
	if len(lines) < 4 || lines[0] == "" {
		return c, fmt.Errorf("%w: no checkpoint", errMalformed)
	}
	c.origin = lines[0]
	if c.tree.N, err = parseSize(lines[1]); err == nil {
		c.tree.Hash, err = parseHash(lines[2])
	}
	if err != nil {
		return c, fmt.Errorf("%w: no checkpoint", errMalformed)
	}
	return c, nil
}

// parseSize takes the one spelling of a size.
func parseSize(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > math.MaxInt64 || strconv.FormatUint(n, 10) != s {
		return 0, errMalformed
	}
	return int64(n), nil
}

// parseHash takes the one spelling in base64, without line breaks.
func parseHash(s string) (tlog.Hash, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != tlog.HashSize || strings.Contains(s, "\r") {
		return tlog.Hash{}, errMalformed
	}
	return tlog.Hash(b), nil
}

// encode is the body of the request.
func (r *request) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "old %d\n", r.old)
	for _, h := range r.proof {
		fmt.Fprintf(&b, "%s\n", h)
	}
	b.WriteByte('\n')
	b.Write(r.note)
	return b.Bytes()
}
