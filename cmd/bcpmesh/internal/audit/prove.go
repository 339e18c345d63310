package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// errFound ends the reading of a journal.
var errFound = errors.New("found")

// exportProof writes a proof that a decision was made.
func exportProof(ctx context.Context, p *cli.Program, where meshdir.StateFlags, number uint64) error {
	j, err := client.OpenSource(ctx, where)
	if err != nil {
		return err
	}
	defer j.Close()
	tree := mesh.Tree(j.Folder.State)
	if _, err := tree.Newest(); err != nil {
		return checkpointFailure(err)
	}
	var decision []byte
	var next uint64 // number of the decision that is due
	err = j.Records(ctx, func(decisions [][]byte, _ uint64) error {
		if next == 0 { // a journal may begin later
			first, err := bcp.DecodeDecision(decisions[0])
			if err != nil {
				return err
			}
			if next = first.Seq; number < next {
				return cli.Failf("decision %d was cut off the journal, which begins with decision %d", number, next).WithHint("bcpmesh restore rebuilds the whole journal from backups: prove it there")
			}
		}
		if number-next < uint64(len(decisions)) {
			decision = decisions[number-next]
			return errFound
		}
		next += uint64(len(decisions))
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return exportFailure(err, j.Folder.State)
	}
	proof, err := tree.Prove(number, decision)
	if err != nil {
		return checkpointFailure(err)
	}
	if p.Out.JSON {
		return p.Out.Value(map[string]string{"proof": string(proof)})
	}
	p.Out.Printf("%s", proof)
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
	// Witnesses have cosigned that, of those that were asked for.
	Witnesses []verifyWitness `json:"witnesses,omitempty"`
}

func verifyProof(p *cli.Program, name string, keys []string, quorum quorum) error {
	content, err := readProof(name)
	if err != nil {
		return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
	}
	proven, err := verify.Proof(content, keys)
	if err != nil {
		return cli.Failf("%s: %s", cli.Quoted(name), cli.Plain(err.Error()))
	}
	_, signed, _ := strings.Cut(string(content), "\n\n")
	cosigned, err := quorum.check(name, []byte(signed), keys)
	if err != nil {
		return err
	}
	r := provenResult{name, true, proven.Decision, proven.Time, bcp.DecisionKind(proven.Kind).String(), proven.Controller, proven.Reader,
		fmt.Sprintf("%x", bcp.RecordDigest(proven.Bytes)), proven.Checkpoint.Size, cosigned}
	if p.Out.JSON {
		return p.Out.Line(r)
	}
	p.Out.Printf("verified %s: decision %d of %d, %s at %s", cli.Plain(name), r.Decision, r.Of, r.Kind, r.Time.Format(time.RFC3339))
	if r.Controller != "" && r.Reader != "" {
		p.Out.Printf(", %s ← %s", cli.Plain(r.Controller), cli.Plain(r.Reader))
	}
	p.Out.Printf("\ndigest %s\n", r.Digest)
	for _, w := range cosigned {
		p.Out.Printf("cosigned by %s at %s\n", cli.Plain(w.Name), w.Time.Format(time.RFC3339))
	}
	return nil
}

// readProof reads a file with a proof: the longest holds a decision of a full
// message in base64.
func readProof(name string) ([]byte, error) {
	return folder.ReadFile(name, 2*verify.MaxBlock)
}
