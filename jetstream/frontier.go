package jetstream

import (
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// frontier is a growing Merkle tree (RFC 6962): the hashes of its whole
// subtrees, largest first, one for each bit of its size.
type frontier struct {
	size   int64
	hashes []tlog.Hash
}

// add appends the digest of the next decision, which is the hash of its leaf,
// and calls store, if set, with each hash that is now complete, in the order of
// tlog.StoredHashes.
func (f *frontier) add(digest bcp.Digest, store func(tlog.Hash)) {
	h := tlog.Hash(digest)
	for level := 0; ; level++ {
		if store != nil {
			store(h)
		}
		if f.size>>level&1 == 0 {
			break
		}
		last := len(f.hashes) - 1
		h = tlog.NodeHash(f.hashes[last], h)
		f.hashes = f.hashes[:last]
	}
	f.hashes = append(f.hashes, h)
	f.size++
}

func (f *frontier) root() tlog.Tree {
	if f.size == 0 {
		h, _ := tlog.TreeHash(0, nil) // reads nothing
		return tlog.Tree{Hash: h}
	}
	h := f.hashes[len(f.hashes)-1]
	for i := len(f.hashes) - 2; i >= 0; i-- {
		h = tlog.NodeHash(f.hashes[i], h)
	}
	return tlog.Tree{N: f.size, Hash: h}
}

// readFrontier reads the frontier of the first size entries of a tree.
func readFrontier(size int64, r tlog.HashReader) (frontier, error) {
	var indexes []int64
	for begin := int64(0); begin < size; {
		level := bits.Len64(uint64(size-begin)) - 1
		indexes = append(indexes, tlog.StoredHashIndex(level, begin>>level))
		begin += 1 << level
	}
	hashes, err := r.ReadHashes(indexes)
	return frontier{size, hashes}, err
}
