package server

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// room is how many numbers the server makes room for when it reads a block of which
// it believes that it begins with a number. It is written after the server's
// indexCacheBufLocked, and stops counting at a limit.
func room(b []byte, begins, limit uint64) (numbers uint64) {
	last, first := uint64(0), uint64(0)
	for at := uint64(0); at < uint64(len(b)); {
		if at+22 > uint64(len(b)) {
			return numbers
		}
		length, number := binary.LittleEndian.Uint32(b[at:]), binary.LittleEndian.Uint64(b[at+4:])
		subject := int(binary.LittleEndian.Uint16(b[at+20:]))
		if length&(1<<31) != 0 {
			length, subject = length&^(1<<31), subject+4
		}
		if data := int(length) - 22; data < 0 || subject > data-8 || at+uint64(length) > uint64(len(b)) || length > 32<<20 {
			return numbers
		}
		at += uint64(length)
		if number&(1<<62) != 0 {
			continue
		}
		number &^= 1 << 63
		if number <= last || number < begins {
			continue
		}
		last = number
		if first == 0 {
			if first = number; first != begins {
				return numbers
			}
		}
		if numbers = number - begins + 1; numbers > limit {
			return numbers
		}
	}
	return numbers
}

// stored is a record as the server writes it, without its checksum.
func stored(number uint64, size int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(22+7+size+8))
	b = binary.LittleEndian.AppendUint64(b, number)
	b = binary.LittleEndian.AppendUint64(b, 1)
	b = binary.LittleEndian.AppendUint16(b, 7)
	return append(b, make([]byte, 7+size+8)...)
}

// Whatever is in a block: where it is let through, the server makes room for no more
// numbers than a block may have, wherever it believes that the block begins.
//
// covers P11.1
func FuzzBearable(f *testing.F) {
	whole := bytes.Join([][]byte{stored(5, 10), stored(6, 300), stored(7, 0), stored(9|1<<63, 3), stored(2|1<<62, 0), stored(10, 1)}, nil)
	f.Add(whole, uint64(5))
	f.Add(bytes.Join([][]byte{whole, stored(1<<40, 1)}, nil), uint64(5))
	f.Add(bytes.Join([][]byte{stored(1<<40, 1), whole}, nil), uint64(1<<40))
	f.Fuzz(func(t *testing.T, block []byte, begins uint64) {
		if !arePlausible(bytes.NewReader(block), int64(len(block))) {
			return
		}
		// Where the server believes in the number of a record further on, those in
		// front of it are passed over.
		numbers := room(block, begins, maxNumbers)
		failIf(t, numbers > maxNumbers, "room for %d numbers from %d on", numbers, begins)
	})
}

// A block may have so many numbers and not one more; what says that another record
// is gone has any number.
//
// covers P11.1
func TestBearable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		records [][]byte
		want    bool
	}{
		{"none", nil, true},
		{"one, of any number", [][]byte{stored(1<<61, 5)}, true},
		{"in order", [][]byte{stored(1, 5), stored(2, 400_000), stored(3, 5)}, true},
		{"the most numbers", [][]byte{stored(7, 5), stored(7+maxNumbers-1, 5)}, true},
		{"one number more", [][]byte{stored(7, 5), stored(7+maxNumbers, 5)}, false},
		{"one more, erased", [][]byte{stored(7, 5), stored((7+maxNumbers)|erased, 5)}, false},
		{"one more, behind much", [][]byte{stored(7, 5), stored(8, 900_000), stored(7+maxNumbers, 5)}, false},
		{"one that is gone far away", [][]byte{stored(7, 5), stored((7+1<<40)|removed, 0), stored(8, 5)}, true},
		{"a first that is too small", [][]byte{stored(1, 5), stored(1<<30, 5)}, false},
		{"behind a length that cannot be", [][]byte{stored(7, 5), make([]byte, 40), stored(1<<30, 5)}, true},
	} {
		block := bytes.Join(c.records, nil)
		for cut := range 3 { // the end may be missing
			b := block[:max(0, len(block)-cut)]
			got := arePlausible(bytes.NewReader(b), int64(len(b)))
			failIf(t, got != c.want && (cut == 0 || c.want), "%s, without %d bytes: %t", c.name, cut, got)
		}
	}
}
