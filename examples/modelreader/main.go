// Command modelreader runs a Reader of a mesh with its model, without bcpmesh: the definition says what it may do. Nothing
// confines its cell here; keeper.Options.Start is where a program confines one.
//
//	modelreader FOLDER NAME URL READER_CREDS KEEPER_CREDS
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "expected FOLDER NAME URL READER_CREDS KEEPER_CREDS")
		os.Exit(2)
	}
	if err := serve(ctx, os.Args[1], bcp.AgentName(os.Args[2]), os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, "modelreader:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, folder string, name bcp.AgentName, url, readerCreds, keeperCreds string) error {
	def, report := definition.Load(os.DirFS(folder))
	if def == nil {
		return fmt.Errorf("%v", report.Errors)
	}
	agent, ok := def.Agent(name)
	if !ok {
		return fmt.Errorf("the mesh has no %s", name)
	}
	m, _ := def.ModelOf(agent.Model)
	model, err := wires.Open(m, wires.Options{Env: os.LookupEnv, Folder: folder, MaxTokens: agent.Run.MaxTokens})
	if err != nil {
		return err
	}
	reader, err := agents.Connect(ctx, url, agents.CredsFile(readerCreds), agents.Options{Name: name, Encoding: agent.Encoding})
	if err != nil {
		return err
	}
	defer reader.Close()
	kept, err := agents.Connect(ctx, url, agents.CredsFile(keeperCreds), agents.Options{Name: name})
	if err != nil {
		return err
	}
	defer kept.Close()
	_, err = keeper.Run(ctx, keeper.Options{
		Definition: def, Agent: &agent, Role: bcp.RoleReader, Connection: reader, Kept: kept, Model: model, Start: keeper.InProcess, LookUp: os.LookupEnv,
	})
	return err
}
