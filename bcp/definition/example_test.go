package definition_test

import (
	"fmt"
	"os"

	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

func ExampleLoad() {
	mesh, report := definition.Load(os.DirFS("testdata/seed"))
	if mesh == nil {
		fmt.Println(report.Errors)
		return
	}
	for _, c := range mesh.Channels {
		fmt.Printf("%s asks %s: category %d, %s bits, %d subscriptions\n", c.Controller, c.Reader, c.MaxCategory, c.Budget, len(c.Subscriptions))
	}
	// Output:
	// main asks researcher: category 2, 1000.0 bits, 2 subscriptions
}

func ExampleParse() {
	_, report := definition.Parse(map[string][]byte{
		"agents/mail.md": []byte("---\nname: mail\nmax_conections: 3\nencoding: jsno\n---\nYou read mail.\n"),
	})
	for _, problem := range report.Errors {
		fmt.Println(problem)
	}
	// Output:
	// agents/mail.md:3:1: max_conections: unknown key "max_conections" of an agent; did you mean "max_connections"?
	// agents/mail.md:4:11: encoding: expected one of json, msgpack, got "jsno"; did you mean "json"?
}
