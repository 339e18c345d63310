package files

import (
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Name is the name of all these tools in a definition.
const Name = "files"

// The names of the tools.
const (
	ListName   = "files_list"
	SearchName = "files_search"
	ReadName   = "files_read"
)

type listArguments struct {
	Folder *int `json:"folder"`
	After  *int `json:"after"`
}

const listSchema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"folder":{"type":"integer","minimum":1,"description":"The number of a folder. Without it: the folders that there are."},` +
	`"after":{"type":"integer","minimum":1,"description":"The number of the last entry of the listing that is to go on."}}}`

type searchArguments struct {
	Text   string `json:"text"`
	Folder *int   `json:"folder"`
}

const searchSchema = `{"type":"object","additionalProperties":false,"required":["text"],"properties":{` +
	`"text":{"type":"string","minLength":1,"maxLength":100,"description":"A phrase, in any case. It is looked for in names and in lines."},` +
	`"folder":{"type":"integer","minimum":1,"description":"The number of a folder. Without it: all of them."}}}`

type readArguments struct {
	File int  `json:"file"`
	Part *int `json:"part"`
}

const readSchema = `{"type":"object","additionalProperties":false,"required":["file"],"properties":{` +
	`"file":{"type":"integer","minimum":1,"description":"The number of a file that was listed or found."},` +
	`"part":{"type":"integer","minimum":1,"description":"A long file has parts of 100,000 characters. 1 if it is left out."}}}`

// Tools returns the tools of one conversation. Numbers are those of the conversation.
// redact is applied to everything from outside.
func (f *Folders) Tools(redact guard.Set) []llm.Executable {
	d := &desk{Folders: f, redact: redact}
	for i := range f.folders {
		d.numbers.Of(entry{i, ".", true})
	}
	return []llm.Executable{
		tool.New(ListName, llm.Constant("List a folder of files. Each entry has a number, by which other tools know it."), listSchema, guard.File, &d.mu, d.list),
		tool.New(SearchName, llm.Constant("Search files for a phrase."), searchSchema, guard.File, &d.mu, d.search),
		tool.New(ReadName, llm.Constant("Read a text file."), readSchema, guard.File, &d.mu, d.read),
	}
}
