// Package health has status and doctor: what runs, and what is wrong with it. They
// change nothing.
package health
