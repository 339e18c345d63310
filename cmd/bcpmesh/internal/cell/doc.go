// Package cell runs programs in a sandbox: the command by which this program
// confines itself and becomes another one, and the escape attempts of doctor
// --sandbox.
package cell
