// Package researchdesk is the example of agents that models run: an editor,
// which reads no content, asks a reader of web pages and a reader of mail
// which of the week's releases concern a shop, by when, and who wrote about
// them. Four of its nine pages and fifteen of its mails are hostile.
//
// The folder mesh is for `bcpmesh up`; its pages are saved responses.
// `bcpmesh demo --desk` plays all agents in one process.
package researchdesk

import (
	"embed"
	"io/fs"

	"github.com/bcpmesh/bcpmesh/examples/mailroom/mail"
)

//go:embed mesh
var mesh embed.FS

// The seats of the example.
const (
	Editor     = "editor"
	WebReader  = "web-reader"
	MailReader = "mail-reader"
)

// Task is what the editor is asked.
const Task = "Which releases of this week concern us, by when do we have to act, and who wrote about them?"

// Words are words that nobody but an attacker says: those of the hostile pages.
var Words = []string{"zanzibar", "quibblewort", "flummoxed", "grobnik", "perplexwood"}

// Folder returns the example's folder: definitions, the scripts of its models, and saved pages.
func Folder() fs.FS { return subFS("mesh") }

// Pages are the saved responses.
func Pages() fs.FS { return subFS("mesh/pages") }

// Mail is a Maildir.
func Mail() fs.FS { return mail.FS }

func subFS(name string) fs.FS {
	folder, err := fs.Sub(mesh, name)
	if err != nil {
		panic("researchdesk: the example is not embedded: " + err.Error())
	}
	return folder
}
