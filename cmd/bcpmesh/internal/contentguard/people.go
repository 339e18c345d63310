package contentguard

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	agentsfolder "github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// allowFlags are the flags with a list of hosts.
type allowFlags struct{ entries []string }

func (a *allowFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&a.entries, "allow", nil, "hosts that may be reached: `HOST,*.HOST,HOST:PORT`")
	cli.Complete(cmd, "allow", cobra.NoFileCompletions)
}

// policy returns the policy of the flags or, without them, of the environment.
func (a *allowFlags) policy(p *cli.Program) (guard.Policy, error) {
	entries := a.entries
	if entries == nil {
		entries = guard.SplitHosts(p.Env(guard.AllowVariable))
	}
	policy, invalid := guard.ParsePolicy(entries)
	if len(invalid) > 0 {
		return policy, cli.Usagef("%s is not a valid host of an allow-list", cli.Quoted(invalid[0])).WithHint("an entry is HOST or *.HOST, perhaps with :PORT")
	}
	return policy, nil
}

// readInput calls read with a file or stdin.
func readInput(ctx context.Context, p *cli.Program, name string, read func(io.Reader) error) error {
	input := p.In
	if name != "" && name != "-" {
		f, err := agentsfolder.OpenFile(name)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		defer f.Close()
		input = f
	} else if cli.IsTerminal(p.In) {
		p.Out.Talkf("reading text from the terminal; Ctrl-D ends it")
	}
	return read(cli.Interruptible(ctx, input))
}

// readText reads all of a text.
func readText(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCaseText+1))
	switch {
	case err != nil:
		return "", cli.Failf("the input cannot be read: %s", cli.FileReason(err))
	case len(text) > maxCaseText:
		return "", cli.Failf("the input is longer than 64 MiB")
	}
	return string(text), nil
}

// judgeOne writes the result of one case as JSON.
func judgeOne(ctx context.Context, p *cli.Program, judge judgement, in any) error {
	raw, err := json.Marshal(in, json.Deterministic(true), caseOptions)
	if err != nil {
		return cli.Failf("the input is not text")
	}
	result, code := judge(ctx, raw)
	if code != "" {
		return cli.Usagef("%s", code.Error())
	}
	return p.Out.Value(result)
}

// redactStream redacts what comes while it comes.
func redactStream(p *cli.Program, r io.Reader, set guard.Set) error {
	stream := guard.NewStream(flushingWriter{p}, set)
	if _, err := io.Copy(stream, r); err != nil {
		return cli.Failf("the text cannot be redacted: %s", cli.FileReason(err))
	}
	if err := stream.Close(); err != nil {
		return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
	}
	return nil
}

// flushingWriter writes results at once; on a terminal they are made harmless.
type flushingWriter struct{ p *cli.Program }

func (w flushingWriter) Write(b []byte) (int, error) {
	text := string(b)
	if w.p.Out.Terminal {
		text = harmlessText(text)
	}
	if _, err := w.p.Out.Stdout.WriteString(text); err != nil {
		return 0, err
	}
	return len(b), w.p.Out.Stdout.Flush()
}

// harmlessText makes each line harmless for a terminal.
func harmlessText(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = cli.Plain(line)
	}
	return strings.Join(lines, "\n")
}

// writeText writes a text as a result.
func writeText(p *cli.Program, text string) error {
	_, err := flushingWriter{p}.Write([]byte(text))
	if err != nil {
		return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
	}
	return nil
}

// operations are what the guard does; those without people are for cases alone.
func (g *guardFlags) operations(p *cli.Program) []operation {
	return []operation{
		{name: "redact", flags: "set", judge: judged(judgeRedact), in: func(text string) any { return map[string]string{"text": text, "set": g.set.Value} },
			stream: func(r io.Reader) error {
				chosen, err := guard.ParseSet(g.set.Value)
				if err != nil {
					return cli.Usagef("%s", err)
				}
				return redactStream(p, r, chosen)
			}},
		{name: "clean", judge: judged(judgeClean), in: textMember, text: func(text string) error { return writeText(p, guard.Clean(text)) }},
		{name: "fence", flags: "source", judge: judged(judgeFence), in: func(text string) any { return map[string]string{"text": text, "source": g.source.Value} },
			text: func(text string) error {
				fenced, err := guard.Fence(text, guard.Source(g.source.Value))
				if err != nil {
					return cli.Usagef("%s", err)
				}
				return writeText(p, fenced.String()+"\n")
			}},
		{name: "tainted", judge: judged(judgeTainted), in: textMember, text: func(text string) error {
			if !guard.IsTainted(strings.TrimSuffix(text, "\n")) {
				return cli.Failf("the text is not one whole fence")
			}
			p.Out.Printf("one whole fence\n")
			return nil
		}},
		{name: "egress", flags: "allow", judge: judged(judgeEgress), argument: "URL", one: func(url string) error { return g.egress(p, url) }},
		{name: "hosts", judge: judged(judgeHosts), argument: "LIST", one: func(list string) error { return showHosts(p, list) }},
		{name: "address", judge: judged(judgeAddress), argument: "ADDRESS", one: func(address string) error { return showAddress(p, address) }},
		{name: "price", judge: judged(judgePrice), argument: "URL", one: func(url string) error { return g.price(p, url) }},
		{name: "fetch", judge: judgeFetch},
		{name: "quarantine", judge: judgeQuarantine},
	}
}

func textMember(text string) any { return map[string]string{"text": text} }

// egress says whether a URL may be fetched.
func (g *guardFlags) egress(p *cli.Program, url string) error {
	policy, err := g.allow.policy(p)
	if err != nil {
		return err
	}
	result := checkEgress(url, policy)
	if p.Out.JSON {
		if err := p.Out.Value(result); err != nil {
			return err
		}
	}
	switch {
	case !result.Allowed:
		return deniedf(result.Code, url)
	case !p.Out.JSON:
		p.Out.Printf("allowed: %s\n", cli.Plain(result.Canonical))
	}
	return nil
}

// showHosts shows how a list of hosts is parsed.
func showHosts(p *cli.Program, list string) error {
	result := checkHosts(list)
	if p.Out.JSON {
		return p.Out.Value(result)
	}
	for _, entry := range result.Allow {
		if guard.ParseEntry(entry) == nil {
			p.Out.Printf("%s\n", cli.Plain(entry))
		}
	}
	switch {
	case len(result.Invalid) > 0:
		return cli.Failf("%s is not a valid entry", cli.Quoted(result.Invalid[0])).WithHint("an entry is HOST or *.HOST, perhaps with :PORT")
	case len(result.Allow) == 0:
		p.Out.Talkf("no host is allowed")
	}
	return nil
}

// showAddress says whether an address is public.
func showAddress(p *cli.Program, address string) error {
	public := guard.PublicText(address)
	switch {
	case p.Out.JSON:
		return p.Out.Value(addressResult{public})
	case !public:
		f := cli.Failf("%s is not a public address", cli.Quoted(address))
		f.Code = cli.ExitRefused
		return f
	}
	p.Out.Printf("public\n")
	return nil
}

// price says what a URL costs.
func (g *guardFlags) price(p *cli.Program, url string) error {
	target, err := guard.ParseTarget(url)
	if err != nil {
		return deniedf(err, url)
	}
	var result priceResult
	result.NanoBits, result.Bytes = guard.ComposedPrice(target)
	return p.Out.Show(result, func() { p.Out.Printf("%s bits\n", nanoText(result.NanoBits)) })
}

// nanoText writes nano-bits as bits.
func nanoText(n guard.NanoBits) string {
	whole, rest := int64(n)/1e9, int64(n)%1e9
	text := strings.TrimRight(strconv.FormatInt(1e9+rest, 10)[1:], "0")
	if text == "" {
		return strconv.FormatInt(whole, 10)
	}
	return strconv.FormatInt(whole, 10) + "." + text
}
