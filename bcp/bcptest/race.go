//go:build race

package bcptest

const underRace = true
