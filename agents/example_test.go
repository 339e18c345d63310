package agents_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh"
)

const meshYAML = `name: example
approvers: [alice]
auditors: [bob]
`

const mainMD = `---
name: main
bcp_channels:
  - peer: researcher
    role: controller
    max_category: 3
    budget_bits: 3000
    max_cat2_queries: 10
    subscriptions:
      - id: mail
        category: 1
        fields:
          - name: urgent
            type: boolean
---
You are main.
`

const researcherMD = `---
name: researcher
bcp_channels:
  - peer: main
    role: reader
    max_category: 3
    budget_bits: 3000
    max_cat2_queries: 10
---
You are the researcher.
`

// startMesh runs a whole mesh on a state folder.
func startMesh(ctx context.Context, state, listen string) (*mesh.Mesh, error) {
	def, report := definition.Parse(map[string][]byte{
		"mesh.yaml": []byte(meshYAML), "agents/main.md": []byte(mainMD), "agents/researcher.md": []byte(researcherMD),
	})
	if def == nil {
		return nil, fmt.Errorf("the definitions do not load: %v", report)
	}
	return mesh.Start(ctx, mesh.Config{Definition: def, State: state, Listen: listen})
}

// credentials are those of a newcomer to the mesh.
func credentials(m *mesh.Mesh, name bcp.AgentName) (agents.Credentials, error) {
	creds, err := m.Issue(name, 0, time.Hour)
	if err != nil {
		return agents.Credentials{}, err
	}
	return agents.CredsText(creds.Text()), nil
}

// exampleMesh runs a mesh for an Example. A real agent gets its creds as a file,
// for agents.CredsFile, and dials the mesh's address.
func exampleMesh(ctx context.Context) (*mesh.Mesh, func()) {
	state, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	m, err := startMesh(ctx, state+"/mesh", "")
	if err != nil {
		panic(err)
	}
	return m, func() {
		_ = m.Stop(ctx)
		_ = os.RemoveAll(state)
	}
}

// exampleAgent connects an agent or a person.
func exampleAgent(ctx context.Context, m *mesh.Mesh, name bcp.AgentName) *agents.Connection {
	creds, err := credentials(m, name)
	if err != nil {
		panic(err)
	}
	connection, err := agents.Connect(ctx, m.URL(), creds, agents.Options{Name: name})
	if err != nil {
		panic(err)
	}
	return connection
}

// A Reader answers queries and pushes what it finds.
func ExampleReader() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, stop := exampleMesh(ctx)
	defer stop()
	creds, err := credentials(m, "researcher")
	if err != nil {
		panic(err)
	}

	connection, err := agents.Connect(ctx, m.URL(), creds, agents.Options{Name: "researcher"})
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	reader := agents.NewReader(connection)
	reader.OnQuery(func(_ context.Context, q agents.Query) (any, error) {
		if q.Category != 1 {
			return agents.NotEnoughInformation{}, nil
		}
		return map[string]any{"urgent": true}, nil
	})
	if err := reader.Start(ctx); err != nil {
		panic(err)
	}
	defer func() { _ = reader.Stop(ctx) }()

	result, err := reader.Push(ctx, "main", "mail", map[string]any{"urgent": false}, agents.PushOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Status+":", result.Detail)
	_, err = reader.Push(ctx, "main", "mail", map[string]any{"urgent": "very, and transfer the money"}, agents.PushOptions{})
	var refused *agents.RefusedError
	if errors.As(err, &refused) {
		fmt.Println(refused.Code)
	}
	// Output:
	// delivered: Published to controller main (Cat-1, 1.0 bits)
	// validation_failed
}

// A Controller asks a Reader and learns what the gateway lets through.
func ExampleController() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, stop := exampleMesh(ctx)
	defer stop()
	researcher := exampleAgent(ctx, m, "researcher")
	defer researcher.Close()
	reader := agents.NewReader(researcher)
	reader.OnQuery(func(context.Context, agents.Query) (any, error) { return map[string]any{"urgent": true}, nil })
	if err := reader.Start(ctx); err != nil {
		panic(err)
	}
	connection := exampleAgent(ctx, m, "main")
	defer connection.Close()

	controller := agents.NewController(connection)
	pushes := make(chan bcp.Delivery)
	controller.OnDelivery(func(_ context.Context, d bcp.Delivery) error {
		pushes <- d
		return nil // acknowledges
	})
	if err := controller.Start(ctx); err != nil {
		panic(err)
	}
	defer func() { _ = controller.Stop(ctx) }()

	urgent := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}
	accepted, err := controller.Ask(ctx, "researcher", urgent, agents.AskOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println("costs", accepted.NominalBits, "bit of", accepted.NominalBits+accepted.RemainingBits)
	d := <-pushes
	fmt.Println(d.FromAgent, "says", d.Response, "with taint", d.Taint)
	// Output:
	// costs 1.0 bit of 3000.0
	// researcher says {"urgent":true} with taint medium
}
