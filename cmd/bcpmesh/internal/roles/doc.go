// Package roles has the commands role list and role report: who plays which role in a
// mesh, and how far the contracts of the roles are kept.
package roles
