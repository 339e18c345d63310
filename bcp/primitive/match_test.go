package primitive_test

import (
	"fmt"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/primitive"
)

func ExampleMatcher_Match() {
	matcher := primitive.New([]primitive.Field{
		{Key: []byte(`{"urgent":`), Boolean: true},
		{Key: []byte(`,"stars":`), Min: 1, Max: 5},
	})
	fmt.Println(matcher.Match([]byte(`{"stars": 4, "urgent": true}`)))
	fmt.Println(matcher.Match([]byte(`{"stars": 6, "urgent": true}`)))
	// Output:
	// {"urgent":true,"stars":4} true
	//  false
}

// covers P3.1, P3.6
func TestWhatIsNotUsual(t *testing.T) {
	t.Parallel()
	key := []byte(`{"e":`)
	for name, fields := range map[string][]primitive.Field{
		"nothing":    nil,
		"too many":   make([]primitive.Field, primitive.MaxFields+1),
		"an escape":  {{Key: key, Values: [][]byte{[]byte(`"\""`)}}},
		"not ASCII":  {{Key: key, Values: [][]byte{[]byte(`"é"`)}}},
		"a long one": {{Key: key, Values: [][]byte{make([]byte, 600)}}},
	} {
		m := primitive.New(fields)
		if m != nil {
			t.Errorf("%s has a matcher", name)
		}
		if got, ok := m.Match([]byte(`{"e":true}`)); ok || got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
