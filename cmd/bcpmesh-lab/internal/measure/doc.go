// Package measure has the command bench, which measures this machine.
package measure
