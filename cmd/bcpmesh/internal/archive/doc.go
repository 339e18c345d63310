// Package archive has the commands backup and restore, for state folders and
// clusters.
package archive
