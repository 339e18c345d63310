package verify

import (
	"crypto/sha256"
	"math/bits"
)

// Hash is a SHA-256.
type Hash = [sha256.Size]byte

func nodeHash(left, right *Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// node is a whole subtree: the one with this index, from 0, among those with
// 2^level leaves.
type node struct {
	level int
	index uint64
	hash  Hash
}

// push appends a subtree to a list, and merges it with its left neighbour as
// long as both make a larger one.
func push(list []node, n node) []node {
	list = append(list, n)
	for len(list) > 1 {
		left, right := &list[len(list)-2], &list[len(list)-1]
		if right.index&1 == 0 || left.level != right.level || left.index != right.index-1 {
			break
		}
		left.hash = nodeHash(&left.hash, &right.hash)
		left.level, left.index = left.level+1, left.index>>1
		list = list[:len(list)-1]
	}
	return list
}

// splitSubtrees gives the subtrees of a tree with this many leaves, largest first,
// their places.
func splitSubtrees(leaves uint64, hashes []Hash) []node {
	list := make([]node, 0, 64)
	begin := uint64(0)
	for _, h := range hashes {
		level := bits.Len64(leaves-begin) - 1
		list = append(list, node{level, begin >> level, h})
		begin += 1 << level
	}
	return list
}

// root is the hash of a tree from its subtrees. That of no leaf is the SHA-256 of
// nothing.
func root(list []node) Hash {
	if len(list) == 0 {
		return sha256.Sum256(nil)
	}
	hash := list[len(list)-1].hash
	for i := len(list) - 2; i >= 0; i-- {
		hash = nodeHash(&list[i].hash, &hash)
	}
	return hash
}
