// Package measure has bench, which measures this machine, and scale, which
// computes what a mesh of a size needs.
package measure
