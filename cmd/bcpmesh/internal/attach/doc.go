// Package attach has the commands that connect a program to a mesh as an
// agent: agent, reader and mcp.
package attach
