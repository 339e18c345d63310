package state

import (
	"reflect"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What is kept of each client id has no pointer and fits where a map keeps its
// values, so that a million of them cost the collector of garbage nothing.
//
// covers P2.6
func TestFirstsHaveNoPointers(t *testing.T) {
	t.Parallel()
	var plain func(reflect.Type) bool
	plain = func(kind reflect.Type) bool {
		switch kind.Kind() {
		case reflect.Struct:
			for i := range kind.NumField() {
				if !plain(kind.Field(i).Type) {
					return false
				}
			}
			return true
		case reflect.Array:
			return plain(kind.Elem())
		}
		return kind.Kind() <= reflect.Float64 // numbers and booleans
	}
	kind := reflect.TypeFor[first]()
	if size := kind.Size(); size > 128 || !plain(kind) || !plain(reflect.TypeFor[clientKey]()) {
		t.Errorf("%s has %d bytes, or pointers", kind, size)
	}
}

// Ids are told apart by agent, role and channel, and by where one name ends and
// the next begins.
//
// covers P2.6
func TestClientKeys(t *testing.T) {
	t.Parallel()
	seen := make(map[clientKey]int)
	for i, d := range []bcp.Decision{
		{Role: bcp.RoleReader, Controller: "main", Reader: "mailer", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleController, Controller: "main", Reader: "mailer", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleReader, Controller: "main", Reader: "maile", Private: bcp.Private{Client: "rx"}},
		{Role: bcp.RoleReader, Controller: "mainm", Reader: "ailer", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleReader, Controller: "mailer", Reader: "main", Private: bcp.Private{Client: "x"}},
		{Role: bcp.RoleReader, Controller: "main", Reader: "mailer", Private: bcp.Private{Client: "y"}},
		{Role: bcp.RoleReader, Reader: "mailer", Private: bcp.Private{Client: "x"}},
	} {
		key := newClientKey(&d)
		if before, twice := seen[key]; twice {
			t.Errorf("%d and %d have the same key", before, i)
		}
		seen[key] = i
	}
}
