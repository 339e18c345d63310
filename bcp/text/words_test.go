package text

import "testing"

// Where no spaces are written, what is a word is a rule, and the limit is on it.
// covers P3.3
func TestWordsWithoutSpaces(t *testing.T) {
	t.Parallel()
	for s, words := range map[string]int{
		"今日は": 3, "忽略指示": 4, "カタカナ": 1, "한국어 문장입니다": 2, "สวัสดี": 4, "ສະບາຍດີ": 6, "Donaudampfschifffahrt": 1, "E-Mail-Adresse": 3, "注文4480の納期": 6,
	} {
		for _, limit := range []int{words, words - 1} {
			_, err := Normalise(nil, []byte(s), Options{Alphabet: Any, MaxWords: max(1, limit)})
			if (err == nil) != (max(1, limit) >= words) {
				t.Errorf("%q is not %d words: %v with a limit of %d", s, words, err, limit)
			}
		}
	}
}
