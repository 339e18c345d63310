// Package run has the commands by which a mesh is run and kept well: up, gateway and demo run one in
// this process, and reload has it load new definitions; web serves pages about it, as up and demo do
// too; status and doctor show what runs and what is wrong with it, and change nothing; backup and
// restore copy what it has decided, from and to state folders and clusters.
package run
