package wire

import "hash/fnv"

// Check judges a whole document without a schema: the rules of [Scanner], no
// repeated key at any level, at most [MaxKeys] keys an object, and no null. Call
// it before a more lenient library decodes the same bytes (PROTOCOL P2.2, P2.3);
// that library must still be told to refuse unknown keys and to compare keys by
// exact case.
func Check(b []byte) error {
	s := NewScanner(b)
	if err := s.skip(); err != nil {
		return err
	}
	return s.End()
}

// RawValue passes over one value and returns its bytes, a part of the input,
// without the white space around them. The value is judged as by [Check].
func (s *Scanner) RawValue() ([]byte, error) {
	s.peek()
	start := s.pos
	if err := s.skip(); err != nil {
		return nil, err
	}
	return s.buf[start:s.pos:s.pos], nil
}

// skip judges and passes over the next value.
func (s *Scanner) skip() error {
	_, err := s.walk(nil, false)
	return err
}

// keySet finds repeated keys in all objects that are open at one time. For each
// key it compares at most MaxKeys hashes. They need no secret: whoever makes all
// of them collide gains those MaxKeys comparisons of bytes and no more.
type keySet struct {
	size int
	base [MaxDepth + 1]int // by level: the size when it was opened
	few  [12]keyRef        // the first keys, so that most messages allocate nothing
	rest []keyRef          // the keys after few
}

type keyRef struct {
	span
	hash uint64 // of the text that it spells
}

// open begins the object or array of a level.
func (k *keySet) open(level uint8) { k.base[level] = k.size }

// close forgets the keys of a level.
func (k *keySet) close(level uint8) { k.size = k.base[level] }

// add takes a key that is in buf and returns a reason to refuse it, or nil.
func (k *keySet) add(buf []byte, key span, level uint8) error {
	base := k.base[level]
	if k.size-base >= MaxKeys {
		return ErrTooManyKeys
	}
	var room, other [64]byte
	text := key.text(buf, room[:0])
	hasher := fnv.New64a()
	hasher.Write(text)
	hash := hasher.Sum64()
	for i := base; i < k.size; i++ {
		if ref := k.at(i); ref.hash == hash && string(ref.text(buf, other[:0])) == string(text) {
			return ErrDuplicateKey
		}
	}
	if k.size >= len(k.few)+len(k.rest) {
		k.rest = append(k.rest, keyRef{})
	}
	*k.at(k.size) = keyRef{key, hash}
	k.size++
	return nil
}

func (k *keySet) at(i int) *keyRef {
	if i < len(k.few) {
		return &k.few[i]
	}
	return &k.rest[i-len(k.few)]
}
