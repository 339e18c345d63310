// Package contentguard has the commands that ask the content guard, case by case: what is
// fenced, redacted, quarantined or fetched, and which hosts and addresses are
// allowed.
package contentguard
