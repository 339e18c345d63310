// Package attach has the commands that connect somebody's program to a mesh as an
// agent: agent, reader and mcp.
package attach
