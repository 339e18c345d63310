// Package health has the commands by which a mesh is kept well: status and doctor, which show what
// runs and what is wrong with it and change nothing; backup and restore, for state folders and clusters.
package health
