// Package simulate has the commands of kernel and role that need no mesh,
// model or server: they run cases against the reasoning kernel and the
// contracts.
package simulate
