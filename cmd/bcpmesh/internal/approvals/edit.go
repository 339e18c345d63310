package approvals

import (
	"context"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

func reasonDigest(reason string) bcp.Digest { return sha256.Sum256([]byte(reason)) }

// editWidth is how wide text is wrapped for an editor. The gateway folds white
// space, so line breaks mean nothing.
const editWidth = 76

// editable writes an item's content for an editor: a summary as text, anything
// else as JSON. An editor is a program that acts on what it reads, so the text
// is as inert as on a terminal, and holds no line that an editor takes as its
// settings ("vim:", "Local Variables:"): no colon follows a letter.
func editable(v *bcp.ItemView) (text string, isText bool) {
	if answers, ok := tell.AnswersOf(v.Content); ok && len(answers) == 1 && answers[0].Name == tell.SummaryName && v.Category == 3 {
		lines := inert.Wrap(noSettings(inert.Text(answers[0].Text), inert.Mark(':')), editWidth)
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		return strings.Join(lines, "\n"), true
	}
	if draft := tell.Draft(v); draft != "" {
		return draft, false
	}
	content := v.Content.Clone()
	if content.Indent() != nil {
		return "{}", false
	}
	return noSettings(string(cli.HarmlessJSON(content)), `\u003a`), false
}

func noSettings(s, colon string) string {
	var b strings.Builder
	last := rune(0)
	for _, r := range s {
		if r == ':' && unicode.IsLetter(last) {
			b.WriteString(colon)
		} else {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

// edited reads back what an editor left.
func edited(text string, isText bool) (any, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, cli.Failf("the edit is empty").WithHint("to release nothing, reject the item")
	}
	if isText {
		return map[string]string{tell.SummaryName: text}, nil
	}
	value := jsontext.Value(text)
	if !value.IsValid() || value.Kind() != '{' {
		return nil, cli.Failf("the edit is not a JSON object").WithHint("change only the values, not the names or punctuation")
	}
	return value, nil
}

// openEditor has the person edit an item's content in $VISUAL or $EDITOR.
func openEditor(ctx context.Context, p *cli.Program, v *bcp.ItemView) (any, error) {
	editor := p.Env("VISUAL")
	if editor == "" {
		editor = p.Env("EDITOR")
	}
	if editor == "" {
		return nil, cli.Usagef("approvals edit: $EDITOR names no editor").WithHint("give the new text with --summary or --response")
	}
	before, isText := editable(v)
	dir, err := os.MkdirTemp("", "bcpmesh-edit-")
	if err != nil {
		return nil, cli.Failf("the file to edit: %s", cli.FileReason(err))
	}
	defer func() { _ = os.RemoveAll(dir) }() // we made it
	name := filepath.Join(dir, "content.json")
	if isText {
		name = filepath.Join(dir, "content.txt")
	}
	if err := os.WriteFile(name, []byte(before+"\n"), 0o600); err != nil {
		return nil, cli.Failf("the file to edit: %s", cli.FileReason(err))
	}
	// The shell splits the words of $EDITOR, as for every program that has one.
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", name)
	run.Stdin, run.Stdout, run.Stderr = stdinFile(p), p.Out.Stderr, p.Out.Stderr
	if err := run.Run(); err != nil {
		return nil, cli.Failf("the editor %s: %s", cli.Quoted(editor), err)
	}
	after, err := cli.ReadSmall(name)
	if err != nil {
		return nil, cli.Failf("the edited file cannot be read: %s", cli.FileReason(err))
	}
	return edited(string(after), isText)
}
