// Command play runs the research desk with two scripted MCP hosts.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	desk "github.com/bcpmesh/bcpmesh/examples/mcp"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: play MAIN.creds RESEARCHER.creds")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := desk.Play(ctx, desk.Options{Program: "bcpmesh", Main: os.Args[1], Researcher: os.Args[2], Out: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, "play:", err)
		os.Exit(1)
	}
}
