// Package health has the commands status and doctor, which show what runs and
// what is wrong with it. They change nothing.
package health
