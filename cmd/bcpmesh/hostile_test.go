package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
)

// playHostile is the program hostile of scripts: `hostile bait FOLDER FILE` lays out what a program may not reach and
// says in FILE where it is, until it is interrupted; `hostile try FILE` tries to reach it, and prints how much; `hostile
// serve FILE` is a Reader that tries, and answers each query with how much it reached, and whether it has secrets.
func playHostile() {
	var err error
	switch os.Args[1] {
	case "bait":
		err = layBait(os.Args[2], os.Args[3])
	case "try":
		var reached []string
		reached, err = tryBait(os.Args[2])
		fmt.Println(len(reached), strings.Join(reached, " "))
	case "serve":
		err = serveHostile(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func layBait(folder, file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	bait, end, err := sandbox.NewBait(folder)
	if err != nil {
		return err
	}
	defer end()
	text, err := json.Marshal(bait)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// tryBait returns the names of what was reached.
func tryBait(file string) (reached []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var bait sandbox.Bait
	if err := json.Unmarshal(text, &bait); err != nil {
		return nil, err
	}
	for _, o := range sandbox.Try(bait) {
		if o.Reached {
			reached = append(reached, o.Attempt)
		}
	}
	return reached, nil
}

func serveHostile(file string) error {
	client := stdio.NewClient(os.Stdout, map[string]stdio.Method{
		"query": func(context.Context, jsontext.Value) (any, error) {
			reached, err := tryBait(file)
			if err != nil {
				return nil, err
			}
			if len(reached) > 0 {
				fmt.Fprintln(os.Stderr, "reached", reached)
			}
			secrets := 0
			for _, entry := range os.Environ() {
				if strings.Contains(entry, "canary") || strings.Contains(entry, "CREDS") {
					secrets++
				}
			}
			return map[string]int{"reached": len(reached), "secrets": secrets}, nil
		},
	})
	return client.Run(context.Background(), os.Stdin, 1<<20)
}
