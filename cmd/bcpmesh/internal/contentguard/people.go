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

// textCommand is a command that reads a text from a file or stdin.
func textCommand(p *cli.Program, name string, cmd *cobra.Command, judge judgement, in func(text string) any, run func(r io.Reader) error) *cobra.Command {
	cmd.Args = cli.Arguments(0, "FILE")
	cmd.ValidArgsFunction = cli.FirstArgument(cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.Out.JSON && len(args) == 0 {
			return judgeLines(cmd.Context(), p, name, judge)
		}
		input := p.In
		if len(args) > 0 && args[0] != "-" {
			f, err := agentsfolder.OpenFile(args[0])
			if err != nil {
				return cli.Failf("%s cannot be read: %s", cli.Quoted(args[0]), cli.FileReason(err))
			}
			defer f.Close()
			input = f
		} else if cli.IsTerminal(p.In) {
			p.Out.Talkf("reading text from the terminal; Ctrl-D ends it")
		}
		input = cli.Interruptible(cmd.Context(), input)
		if !p.Out.JSON {
			return run(input)
		}
		text, err := readText(input)
		if err != nil {
			return err
		}
		return judgeOne(cmd.Context(), p, judge, in(text))
	}
	return cmd
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

func guardRedactCommand(p *cli.Program) *cobra.Command {
	set := cli.WordFlag{Value: guard.All.String(), Words: []string{guard.All.String(), guard.Keys.String(), guard.Seed.String()}}
	cmd := &cobra.Command{
		Use:   "redact [FILE]",
		Short: "Hide secrets in a text",
		Long: `Hide secrets in a text: private keys, tokens of some sixty vendors, passwords in
URLs, assignments and headers, and long hex and base64, with a placeholder such
as [REDACTED:github-token] in place of each. It works line by line, so a log can
be piped through it.

The set keys leaves hex and base64 alone, for text in which hashes matter; seed has
the nine rules of the specification, literally. Secrets are recognised by shape alone:
a password in a sentence passes.`,
		Example: `  bcpmesh guard redact < app.log
  tail -f app.log | bcpmesh guard redact --set keys`,
	}
	set.AddTo(cmd, "set", "which rules")
	return textCommand(p, "redact", cmd, judged(judgeRedact), func(text string) any { return map[string]string{"text": text, "set": set.Value} },
		func(r io.Reader) error {
			chosen, err := guard.ParseSet(set.Value)
			if err != nil {
				return cli.Usagef("%s", err)
			}
			return redactStream(p, r, chosen)
		})
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

func guardCleanCommand(p *cli.Program) *cobra.Command {
	return textCommand(p, "clean", &cobra.Command{
		Use:   "clean [FILE]",
		Short: "Remove invisible characters from a text",
		Long: `Remove invisible characters from a text: control and format characters,
invisible tags, variation selectors and private use. Line breaks of all kinds
become one kind, and other white space a blank. All that an agent reads is
cleaned first.`,
		Example: `  bcpmesh guard clean < page.txt`,
	}, judged(judgeClean), func(text string) any { return map[string]string{"text": text} }, func(r io.Reader) error {
		text, err := readText(r)
		if err != nil {
			return err
		}
		return writeText(p, guard.Clean(text))
	})
}

func guardFenceCommand(p *cli.Program) *cobra.Command {
	source := cli.WordFlag{Value: string(guard.File)}
	for _, s := range guard.Sources {
		source.Words = append(source.Words, string(s))
	}
	cmd := &cobra.Command{
		Use:   "fence [FILE]",
		Short: "Mark a text as data for a model",
		Long: `Mark a text as data for a model: it is put between two tags that say so, and anything
inside that a model could read as one of these tags is made harmless, and invisible
characters are removed as "guard clean" does. A fence lowers the risk that a model
obeys the text. It does not remove it.`,
		Example: `  bcpmesh guard fence --source mail < message.txt`,
	}
	source.AddTo(cmd, "source", "where the text came from")
	return textCommand(p, "fence", cmd, judged(judgeFence), func(text string) any { return map[string]string{"text": text, "source": source.Value} },
		func(r io.Reader) error {
			text, err := readText(r)
			if err != nil {
				return err
			}
			fenced, err := guard.Fence(text, guard.Source(source.Value))
			if err != nil {
				return cli.Usagef("%s", err)
			}
			return writeText(p, fenced.String()+"\n")
		})
}

func guardTaintedCommand(p *cli.Program) *cobra.Command {
	return textCommand(p, "tainted", &cobra.Command{
		Use:   "tainted [FILE]",
		Short: "Tell whether a text is one whole fence",
		Long: `Say whether a text is exactly one fence, with nothing around it. The exit code is
1 if it is not. A forged fence that passes is still a fence; only the source in
it may lie, and nothing reads the source from text.`,
		Example: `  bcpmesh guard tainted < prompt.txt`,
	}, judged(judgeTainted), func(text string) any { return map[string]string{"text": text} }, func(r io.Reader) error {
		text, err := readText(r)
		if err != nil {
			return err
		}
		if !guard.IsTainted(strings.TrimSuffix(text, "\n")) {
			return cli.Failf("the text is not one whole fence")
		}
		p.Out.Printf("one whole fence\n")
		return nil
	})
}

// oneCommand is a command that judges its argument or, with --json alone, lines.
func oneCommand(p *cli.Program, name, argument string, cmd *cobra.Command, judge judgement, run func(ctx context.Context, arg string) error) *cobra.Command {
	cmd.Args = cli.Arguments(0, argument)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return run(cmd.Context(), args[0])
		case p.Out.JSON:
			return judgeLines(cmd.Context(), p, name, judge)
		}
		return cli.Usagef("guard %s: expected %s", name, argument).WithHint("or --json, to read cases from stdin")
	}
	return cmd
}

func guardEgressCommand(p *cli.Program) *cobra.Command {
	var allow allowFlags
	cmd := &cobra.Command{
		Use:   "egress [URL]",
		Short: "Tell whether a URL may be fetched",
		Long: `Say whether a URL may be fetched, and how it is parsed. A list of hosts allows names
and ports; a URL that programs parse in different ways is refused, whatever the list.
Without --allow, the list is that of the environment variable BCPMESH_EGRESS_ALLOW; if
that is not set, nothing is allowed.

The exit code is 3 if the URL is refused.`,
		Example: `  bcpmesh guard egress https://docs.example.com/ --allow "*.example.com"`,
	}
	allow.addTo(cmd)
	return oneCommand(p, "egress", "URL", cmd, judged(judgeEgress), func(_ context.Context, url string) error {
		policy, err := allow.policy(p)
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
	})
}

func guardHostsCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "hosts [LIST]",
		Short: "Show how a list of hosts is parsed",
		Long: `Show how a list of hosts is parsed: the argument, or the environment variable
BCPMESH_EGRESS_ALLOW. Entries are separated by commas. An invalid entry matches
nothing; the exit code is then 1.`,
		Example:           `  bcpmesh guard hosts "docs.example.com, *.example.org, localhost:8080"`,
		Args:              cli.Arguments(0, "LIST"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.Out.JSON && len(args) == 0 {
				return judgeLines(cmd.Context(), p, "hosts", judged(judgeHosts))
			}
			value := p.Env(guard.AllowVariable)
			if len(args) > 0 {
				value = args[0]
			}
			result := checkHosts(value)
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
		},
	}
}

func guardAddressCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "address [ADDRESS]",
		Short: "Tell whether an address is public",
		Long: `Say whether an IP address is one of the open internet, by the registries of
special-purpose addresses. Others are never dialled for an agent unless its operator
listed them. The exit code is 3 if it is not public.`,
		Example: `  bcpmesh guard address 169.254.169.254`,
	}
	return oneCommand(p, "address", "ADDRESS", cmd, judged(judgeAddress), func(_ context.Context, address string) error {
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
	})
}

func guardPriceCommand(p *cli.Program) *cobra.Command {
	var starts uint64
	var served []uint
	cmd := &cobra.Command{
		Use:   "price [URL]",
		Short: "Compute how many bits a fetch tells hosts",
		Long: `Say how many bits a fetch tells hosts at most. A URL that an agent put together
costs 8 bits a byte and a little more. A link costs less: it is one of the start
URLs of the definition, or a piece of a page that the agent was served.`,
		Example: `  bcpmesh guard price https://docs.example.com/search?q=token
  bcpmesh guard price --start-urls 3 --served 40000,12000`,
	}
	cmd.Flags().Uint64Var(&starts, "start-urls", 0, "for a link: how many start URLs the definition has")
	cmd.Flags().UintSliceVar(&served, "served", nil, "for a link: the lengths of the pages served, in bytes")
	cli.Complete(cmd, "start-urls", cobra.NoFileCompletions)
	cli.Complete(cmd, "served", cobra.NoFileCompletions)
	write := func(result priceResult) error {
		if p.Out.JSON {
			return p.Out.Value(result)
		}
		p.Out.Printf("%s bits\n", nanoText(result.NanoBits))
		return nil
	}
	one := oneCommand(p, "price", "URL", cmd, judged(judgePrice), func(_ context.Context, url string) error {
		target, err := guard.ParseTarget(url)
		if err != nil {
			return deniedf(fetchCode(err), url)
		}
		price, length := guard.ComposedPrice(target)
		return write(priceResult{price, length})
	})
	arguments := one.RunE
	one.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && (cmd.Flags().Changed("start-urls") || cmd.Flags().Changed("served")) {
			lengths := make([]uint64, len(served))
			for i, n := range served {
				lengths[i] = uint64(n)
			}
			return write(priceResult{NanoBits: guard.LinkPrice(starts, lengths)})
		}
		return arguments(cmd, args)
	}
	return one
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
