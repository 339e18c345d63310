// Package pages has the command web, and serves the same pages for commands that run a
// mesh themselves.
package pages
