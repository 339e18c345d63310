package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
)

func auditProveCommand(p *program) *cobra.Command {
	var where stateFlags
	var shard shardFlag
	cmd := &cobra.Command{
		Use:   "prove DECISION",
		Short: "Write a proof that one decision was made",
		Long: `Write a proof that the decision with this number is among those of the newest
checkpoint: its bytes, the hashes that tie it to the checkpoint's root, and the
checkpoint (C2SP tlog-proof). "bcpmesh audit verify --proof" needs that and the public
key, and nothing else is shown of the journal.`,
		Example: `  bcpmesh audit prove 17 > 17.tlog-proof
  bcpmesh audit verify --proof 17.tlog-proof --key office.key`,
		Args: arguments(1, "DECISION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.ParseUint(args[0], 10, 63)
			if err != nil || number == 0 {
				return usagef("audit prove: expected the number of a decision, got %s", quoted(args[0]))
			}
			return auditProve(cmd.Context(), p, where, shard, number)
		},
	}
	where.addTo(cmd)
	shard.addTo(cmd, ofJournal)
	return cmd
}

// errFound ends the reading of a journal.
var errFound = errors.New("found")

func auditProve(ctx context.Context, p *program, where stateFlags, shard shardFlag, number uint64) error {
	j, err := openJournals(ctx, where, shard)
	if err != nil {
		return err
	}
	defer j.close()
	of, err := j.one("")
	if err != nil {
		return err
	}
	tree := mesh.Tree(j.folder.state, of)
	if _, err := tree.Newest(); err != nil {
		return checkpointFailure(err)
	}
	var decision []byte
	var next uint64 // number of the decision that is due
	err = j.read(ctx, of, func(records jetstream.Records, _ *jetstream.SealingKeys) error {
		return records(ctx, func(decisions [][]byte, _ uint64) error {
			if next == 0 { // a journal may begin later
				first, err := bcp.DecodeDecision(decisions[0])
				if err != nil {
					return err
				}
				if next = first.Seq; number < next {
					return failf("decision %d was cut off the journal, which begins with decision %d", number, next).withHint("bcpmesh restore makes the whole journal of the backups: prove it there")
				}
			}
			if number-next < uint64(len(decisions)) {
				decision = decisions[number-next]
				return errFound
			}
			next += uint64(len(decisions))
			return nil
		})
	})
	if err != nil && !errors.Is(err, errFound) {
		return exportFailure(err, j.folder.state)
	}
	proof, err := tree.Prove(number, decision)
	if err != nil {
		return checkpointFailure(err)
	}
	if p.out.json {
		return p.out.value(map[string]string{"proof": string(proof)})
	}
	p.out.printf("%s", proof)
	return nil
}

// provenResult is what audit verify --proof says of one file.
type provenResult struct {
	File       string    `json:"file"`
	Verified   bool      `json:"verified"`
	Decision   uint64    `json:"decision"`
	Time       time.Time `json:"time"`
	Kind       string    `json:"kind"`
	Controller string    `json:"controller,omitempty"`
	Reader     string    `json:"reader,omitempty"`
	Digest     string    `json:"digest"` // by which the next decision names it
	Of         uint64    `json:"of"`     // decisions of the checkpoint
}

func (p *program) verifyProof(name string, keys []string) error {
	content, err := readProof(name)
	if err != nil {
		return failf("%s cannot be read: %s", quoted(name), reasonOf(err))
	}
	proven, err := verify.Proof(content, keys)
	if err != nil {
		return failf("%s: %s", quoted(name), plain(err.Error()))
	}
	r := provenResult{name, true, proven.Decision, proven.Time, bcp.DecisionKind(proven.Kind).String(), proven.Controller, proven.Reader,
		fmt.Sprintf("%x", bcp.RecordDigest(proven.Bytes)), proven.Checkpoint.Size}
	if p.out.json {
		return p.out.line(r)
	}
	p.out.printf("verified %s: decision %d of %d, %s at %s", plain(name), r.Decision, r.Of, r.Kind, r.Time.Format(time.RFC3339))
	if r.Controller != "" && r.Reader != "" {
		p.out.printf(", %s ← %s", plain(r.Controller), plain(r.Reader))
	}
	p.out.printf("\ndigest %s\n", r.Digest)
	return nil
}

// readProof reads a file with a proof: the longest holds a decision of a full
// message in base64.
func readProof(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, 2*verify.MaxBlock+1))
	if err == nil && len(content) > 2*verify.MaxBlock {
		err = errTooLarge
	}
	return content, err
}
