// Command bcpmesh runs and inspects a mesh of agents that exchange no more
// information than their operator declared.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// run executes one command line and returns the exit code of the process. It
// is the whole program: everything that it reads and writes is an argument, but
// for the files that the command line names and the folder it is called in.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	p := &program{in: stdin, out: newOutput(stdout, stderr, env), env: env}
	root := rootCommand(p)
	if args == nil {
		args = []string{} // with nil, cobra takes the arguments of the process
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return p.out.finish(err)
}
