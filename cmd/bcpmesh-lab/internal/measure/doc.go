// Package measure has the commands bench, which measures this machine, and
// scale, which computes what a mesh of a given size needs.
package measure
