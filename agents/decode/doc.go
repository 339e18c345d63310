// Package decode makes text of what strangers wrote: it decides character sets, parses HTML
// within bounds, takes out what a person would not see, writes the rest as text, and parses
// dates. Pages and mails are read by it alike.
//
// It never fails and loses nothing silently: what was guessed, cut or hidden is reported, so
// that a caller can say so. Memory and time are bounded by the size of the input.
package decode
