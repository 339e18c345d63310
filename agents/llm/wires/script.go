package wires

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

const maxScript = 4 << 20 // bytes of a file

// script is a model that answers by rules: the first line that matches a request
// answers it. It has no state.
type script struct{ lines []scriptLine }

// scriptLine is one rule.
type scriptLine struct {
	When struct {
		Turn   int     `json:"turn,omitzero"` // of the model, from 1
		Query  pattern `json:"query"`         // in what is asked
		Result pattern `json:"tool_result"`   // in what the newest calls brought in
	} `json:"when"`
	// Capture names the first group of a pattern in the results of the conversation, the
	// newest first: {{name}} is replaced in texts and calls.
	Capture map[string]pattern `json:"capture"`
	Say     string             `json:"say,omitzero"`
	Call    *struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"args"`
	} `json:"call,omitzero"`
}

// pattern is a regular expression; the zero value matches everything.
type pattern struct{ *regexp.Regexp }

// UnmarshalText compiles it.
func (p *pattern) UnmarshalText(b []byte) (err error) {
	p.Regexp, err = regexp.Compile(string(b))
	return err
}

func (p pattern) matches(text string) bool { return p.Regexp == nil || p.MatchString(text) }

func readScript(path string) (*script, error) {
	content, err := readRegular(path, "script", maxScript)
	if err != nil {
		return nil, err
	}
	s := &script{}
	for n, line := range strings.Split(string(content), "\n") {
		text := strings.TrimSpace(line)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		var l scriptLine
		if err := json.Unmarshal([]byte(text), &l, json.RejectUnknownMembers(true)); err != nil || (l.Say == "") == (l.Call == nil) {
			return nil, fmt.Errorf("line %d of the script %s: expected {\"when\", \"capture\", and \"say\" or \"call\"}", n+1, filepath.Base(path))
		}
		s.lines = append(s.lines, l)
	}
	return s, nil
}

// Do implements [llm.Provider].
func (s *script) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if err := errors.Join(ctx.Err(), r.Check()); err != nil {
		return nil, err
	}
	turn, query, results, all := 1, "", "", ""
	for i, t := range r.Turns {
		if t.Role == llm.Model {
			turn++
		}
		if i == 0 {
			query = joinText(t.Parts)
		}
		results = ""
		for _, result := range t.Results {
			results += joinText(result.Parts) + "\n"
		}
		all = results + all
	}
	for _, l := range s.lines {
		if l.When.Turn != 0 && l.When.Turn != turn || !l.When.Query.matches(query) || !l.When.Result.matches(results) {
			continue
		}
		fill, ok := l.captures(all)
		if !ok {
			continue
		}
		b := &replyBuilder{}
		b.say(fill.Replace(l.Say))
		if l.Call != nil {
			b.call(fmt.Sprintf("call-%d", turn), l.Call.Name, fill.Replace(string(l.Call.Arguments)))
		}
		return b.counted(r)
	}
	return nil, llm.Protocol{What: fmt.Sprintf("no line of the script is for turn %d", turn)}
}

// captures finds a line's captures. A line whose pattern finds nothing does not match.
func (l *scriptLine) captures(results string) (*strings.Replacer, bool) {
	var pairs []string
	for name, p := range l.Capture {
		if p.Regexp == nil {
			continue
		}
		found := p.FindStringSubmatch(results)
		if len(found) < 2 {
			return nil, false
		}
		quoted, err := jsontext.AppendQuote(nil, found[1])
		if err != nil {
			return nil, false
		}
		whole := string(quoted) // a number or boolean that is a whole text is not quoted
		if raw := jsontext.Value(found[1]); raw.IsValid() && strings.ContainsRune("0tf", rune(raw.Kind())) {
			whole = found[1]
		}
		pairs = append(pairs, `"{{`+name+`}}"`, whole, "{{"+name+"}}", string(quoted[1:len(quoted)-1]))
	}
	return strings.NewReplacer(pairs...), true
}
