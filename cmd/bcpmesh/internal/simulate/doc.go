// Package simulate has the commands that need no mesh. Those of kernel and
// role run cases against the reasoning kernel and the contracts, without a
// model or server. Guard and fetch apply the content guard: fences, redaction,
// and the hosts and addresses that may be fetched.
package simulate
