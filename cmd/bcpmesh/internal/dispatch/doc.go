// Package dispatch has the commands that other programs have: the laboratory and the bridges. It starts these, with the rest
// of the command line, and knows nothing of what they do.
package dispatch
