package bcptest

import (
	"errors"
	"fmt"
)

// TB is a test, or a property of one.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// NoError ends a test that cannot go on.
func NoError(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns a value that a test cannot go on without.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// MustIn is [Must], which ends the test that it is given.
func MustIn[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// Fails expects an error, this one where want is not nil; what says of what.
func Fails(t TB, err, want error, what string, args ...any) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", fmt.Sprintf(what, args...), err, want)
	}
}

// Expect compares; what says what has the value. Helper is called late, since it costs more than most conditions.
func Expect[T comparable](t TB, got, want T, what string, args ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%s: %+v, want %+v", fmt.Sprintf(what, args...), got, want)
	}
}

// FailIf fails a test where something is wrong.
func FailIf(t TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// StopIf ends a test that cannot go on.
func StopIf(t TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatalf(format, args...)
	}
}
