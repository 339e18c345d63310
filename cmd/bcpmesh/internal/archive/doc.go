// Package archive has backup and restore, of a state folder and of a cluster.
package archive
