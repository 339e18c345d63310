// Package cell runs programs in a sandbox: the command by which this program
// confines itself and becomes another one, and whether that works here.
package cell
