// Package pages has the command web, and serves the same pages for up, gateway
// and demo.
package pages
