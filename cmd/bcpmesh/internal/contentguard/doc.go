// Package contentguard has the commands guard and fetch, which apply the
// content guard without a mesh: fences, redaction, and the hosts and addresses
// that may be fetched.
package contentguard
