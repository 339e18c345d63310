package attach

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/wrap"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// shownOfResult bounds what is shown of a result, in characters.
const shownOfResult = 300

// observe calls tools of a wrapped server, and drafts their answers from what comes.
func observe(ctx context.Context, p *cli.Program, o wrapOptions, reader string) error {
	dir, err := o.folder(reader)
	if err != nil {
		return err
	}
	file := toolsFile(dir, reader)
	f, err := readTools(file)
	if err != nil {
		return err
	}
	if !o.yes && !p.Interactive() {
		return cli.Usagef("wrap: expected --yes with --observe, since there is no terminal to ask on")
	}
	u, _, err := startUpstream(ctx, p, f.Server, o.pass, cli.NewLogger(hclog.Warn, p.Out.Stderr))
	if err != nil {
		return err
	}
	defer u.Close()
	results := map[int][]*wrap.Result{}
	var order []int
	for _, call := range o.calls {
		name, arguments, _ := strings.Cut(call, "=")
		i := slices.IndexFunc(f.Tools, func(t wrap.Tool) bool { return t.Name == name })
		if i < 0 {
			return cli.Usagef("wrap: --observe: %s has no tool %s", cli.Quoted(file), cli.Quoted(name))
		}
		input := jsontext.Value(arguments)
		if arguments == "" {
			input = jsontext.Value("{}")
		}
		if !input.IsValid() || input.Kind() != '{' {
			return cli.Usagef("wrap: --observe: expected %s={…}, a JSON object, got %s", name, cli.Quoted(arguments))
		}
		result, err := u.Call(ctx, name, input, nil)
		if err != nil {
			return cli.Failf("%s: %s", name, cli.Plain(err.Error()))
		}
		said := []rune(result.Whole())
		shown := cli.Plain(string(said[:min(len(said), shownOfResult)]))
		if result.Failed {
			return cli.Failf("%s reports a failure, of which no answer is drafted: │%s│", name, shown).WithHint("call it with arguments with which it works")
		}
		p.Out.Talkf("%s returned, and is not to be trusted: │%s│", name, shown)
		if results[i] == nil {
			order = append(order, i)
		}
		results[i] = append(results[i], result)
	}
	drafts := &wrap.File{Server: f.Server, Reader: f.Reader}
	for _, i := range order {
		draft, err := f.Tools[i].Observed(results[i])
		if err != nil {
			return cli.Failf("%s: no answer can be drafted: %s", f.Tools[i].Name, cli.Plain(err.Error()))
		}
		f.Tools[i], drafts.Tools = draft, append(drafts.Tools, draft)
	}
	if err := showTools(p, file, drafts); err != nil {
		return err
	}
	if !o.yes {
		if ok, err := cli.NewPrompter(ctx, p).Confirm("Write this into " + file + "?"); err != nil || !ok {
			return err
		}
	}
	return writeTools(file, f)
}
