// Package cell runs programs confined: the command with which this program confines itself and becomes another one,
// and the attempts that show what is confined.
package cell
