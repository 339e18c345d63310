// Package examples carries the examples that `bcpmesh demo` and `bcpmesh init` play, inside the program, so that they run
// from any folder. Package mailroom has the programs of the first.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed all:assistant/mesh researchdesk/mesh mailroom/mesh mailroom/mail/cur mailroom/mail/new
var files embed.FS

func folder(name string) fs.FS {
	folder, err := fs.Sub(files, name)
	if err != nil {
		panic("examples: " + name + " is not embedded: " + err.Error())
	}
	return folder
}

// Mail holds the Maildir folders cur and new of the example mailbox. Read it with mailbox.Messages.
//
// Every message is fiction: senders, amounts and accounts are made up, all
// domains are reserved for documentation, and all addresses of servers come
// from the blocks of RFC 5737. See mailroom/mail/README.md for what is in it.
func Mail() fs.FS { return folder("mailroom/mail") }

// Mailroom is the folder that declares the mesh of package mailroom.
func Mailroom() fs.FS { return folder("mailroom/mesh") }

// Assistant is the example of the reasoning kernel: "Summarise my latest mail and send it to me", on real mail,
// with a planted instruction, a Reader that obeys it, a loop with links that nobody reads, and a planner that is compromised.
// `bcpmesh demo --kernel` tells of it.
//
// It returns the folder for `bcpmesh up`, with programs in its seats: definitions, the plans of its planner, and its office.
func Assistant() fs.FS { return folder("assistant/mesh") }
