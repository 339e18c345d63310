//go:build faults

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mp "github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

var damages = flag.Int("damages", 500, "how many damages TestDamage does to a journal")

// The files of the journal are damaged in every way that disks and people know:
// cut, changed, removed, replaced by older ones or by those of another stream. The
// mesh starts with everything that it had acknowledged, or it refuses and says
// why, and then a salvaging backup restores what stands in front of the damage, or
// says that nothing does.
//
// covers P11.1, P11.2, P4.5, A-CRASH, A-CHAIN
func TestDamage(t *testing.T) {
	chosen := chooseSeed(t)
	random := rand.New(rand.NewPCG(chosen, 0))
	bases := []*history{newHistory(t, random, 1, false), newHistory(t, random, 1, true), newHistory(t, random, 20, false), newHistory(t, random, 20, true)}
	for _, b := range bases {
		t.Logf("%s: %d decisions in %d records, %d blocks", b.name, len(b.decisions), len(b.upTo)-1, len(b.blocks))
	}
	var mu sync.Mutex
	tally := map[string]int{}
	t.Run("damages", func(t *testing.T) {
		for n := range *damages {
			t.Run(fmt.Sprint(n+1), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(chosen, uint64(n)+1))
				base := bases[[]int{0, 1, 0, 1, 0, 1, 0, 1, 2, 3}[n%10]]
				state := filepath.Join(t.TempDir(), "state")
				copyState(t, base.state, state)
				what, good := base.damage(t, state, random)
				outcome := base.judge(t, state, good)
				t.Logf("%s, %s: %s", base.name, what, outcome)
				mu.Lock()
				defer mu.Unlock()
				tally[outcome]++
			})
		}
	})
	for _, outcome := range slices.Sorted(maps.Keys(tally)) {
		t.Logf("%4d %s", tally[outcome], outcome)
	}
}

var damageFiles = map[string]string{
	"main.md": "---\nname: main\nbcp_channels:\n  - {peer: clerk, role: controller, max_category: 2, budget_bits: 1000000000, " +
		"subscriptions: [{id: texts, category: 2, questions: [{id: text, question: What is it?, max_words: 1000, expected_format: short_text}]}]}\n---\n",
	"clerk.md": "---\nname: clerk\nbcp_channels: [{peer: main, role: reader}]\n---\n",
}

// history is a state folder with a journal in it, and an older copy.
type history struct {
	name       string
	definition *bcp.Mesh
	state, old string
	decisions  [][sha256.Size]byte
	upTo       []int               // decisions up to a record, by its sequence
	blocks     map[string][]placed // where the records are, by file name
}

// placed is where a record ends in its block.
type placed struct {
	end      int64
	sequence uint64
}

// newHistory makes one: with some decisions, or so many that the journal has
// several blocks, and of a mesh that was ended, or killed.
func newHistory(t *testing.T, random *rand.Rand, clients int, killed bool) *history {
	t.Helper()
	m := meshtest.Start(t, damageFiles)
	h := &history{name: "ended", definition: m.Definition, old: filepath.Join(t.TempDir(), "old"), state: filepath.Join(t.TempDir(), "state"), blocks: map[string][]placed{}}
	if killed {
		h.name = "killed"
	}
	if clients > 1 {
		h.name += ", large"
	}
	pushes, response := 30, `{"text":"short"}`
	if clients > 1 { // a block has 8 MB
		pushes, response = 80, `{"text":"`+strings.Repeat("the invoice was paid in march, ", 155)+`"}`
	}
	traffic := func(pushes int) {
		clerk := m.Connect(t, "clerk", bcp.RoleReader)
		var running sync.WaitGroup
		for range clients {
			running.Go(func() {
				for range pushes {
					if r := clerk.Push(t, "main", "texts", response, ""); r.Fields["success"] != true {
						t.Errorf("a push: %s", r.JSON)
						return
					}
				}
			})
		}
		running.Wait()
		decisions := m.Decisions()
		noError(t, m.Projected(t.Context(), decisions[len(decisions)-1].Seq))
	}
	traffic(pushes)
	m.Stop(t)
	copyState(t, m.State, h.old)
	m.Start(t)
	traffic(pushes/2 + random.IntN(pushes))
	if killed {
		copyState(t, m.State, h.state)
		m.Stop(t)
	} else {
		m.Stop(t)
		copyState(t, m.State, h.state)
	}
	h.read(t)
	return h
}

// copyState copies a state folder, with its modes.
func copyState(t *testing.T, from, to string) {
	t.Helper()
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	stopIf(t, err != nil, "copying %s: %v: %s", from, err, out)
}

// read notes what the journal holds, and where.
func (h *history) read(t *testing.T) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "state") // a server changes what it opens
	copyState(t, h.state, copied)
	h.upTo = []int{0}
	records, _, err := journalIn(t, copied, h.definition)
	noError(t, err)
	for _, r := range records {
		h.decisions = append(h.decisions, digestsOf(t, r)...)
		h.upTo = append(h.upTo, len(h.decisions))
	}
	for _, name := range journalFiles(t, h.state) {
		if filepath.Ext(name) != ".blk" {
			continue
		}
		b := must(os.ReadFile(name))(t)
		var places []placed
		for at := 0; at < len(b); {
			at += int(binary.LittleEndian.Uint32(b[at:]) &^ (1 << 31))
			places = append(places, placed{end: int64(at)})
		}
		at := 0
		for i := range places {
			places[i].sequence = binary.LittleEndian.Uint64(b[at+4:])
			at = int(places[i].end)
		}
		h.blocks[filepath.Base(name)] = places
	}
}

// good is how many decisions stand in front of a place in a block.
func (h *history) good(block string, at int64) int {
	places := h.blocks[block]
	before := places[0].sequence - 1
	for _, p := range places {
		if p.end <= at {
			before = p.sequence
		}
	}
	return h.upTo[before]
}

// damage does something to one file of the journal, or to several, and returns
// how many decisions are whole in front of it.
func (h *history) damage(t *testing.T, state string, random *rand.Rand) (what string, good int) {
	t.Helper()
	files := journalFiles(t, state)
	folder := streamFolder(t, state, jetstream.CommitStream)
	var blocks []string
	for _, f := range files {
		if filepath.Ext(f) == ".blk" {
			blocks = append(blocks, f)
		}
	}
	file := files[random.IntN(len(files))]
	if random.IntN(2) == 0 {
		file = blocks[random.IntN(len(blocks))]
	}
	isBlock := filepath.Ext(file) == ".blk"
	name := filepath.Base(file)
	content := must(os.ReadFile(file))(t)
	all := len(h.decisions)
	in := func(at int) int {
		if !isBlock {
			return all
		}
		return h.good(name, int64(at))
	}
	write := func(b []byte) {
		noError(t, os.WriteFile(file, b, 0o600))
	}
	switch kind := random.IntN(13); kind {
	case 0, 1, 2:
		at := random.IntN(len(content))
		write(content[:at])
		return fmt.Sprintf("%s cut at %d of %d", name, at, len(content)), in(at)
	case 3, 4, 5:
		at := random.IntN(len(content))
		content[at] ^= 1 << random.IntN(8)
		write(content)
		return fmt.Sprintf("a bit of %s changed at %d of %d", name, at, len(content)), in(at)
	case 6:
		at := random.IntN(len(content))
		end := min(len(content), at+1+random.IntN(4096))
		clear(content[at:end])
		write(content)
		return fmt.Sprintf("%s zero from %d to %d of %d", name, at, end, len(content)), in(at)
	case 7:
		more := make([]byte, 1+random.IntN(200))
		for i := range more {
			more[i] = byte(random.Uint32())
		}
		write(append(content, more...))
		return fmt.Sprintf("%d bytes behind %s", len(more), name), in(len(content))
	case 8:
		noError(t, os.Remove(file))
		return name + " removed", in(0)
	case 9: // as it was before
		rest, _ := filepath.Rel(state, file)
		before, err := os.ReadFile(filepath.Join(h.old, rest))
		if errors.Is(err, fs.ErrNotExist) {
			before = nil
		}
		write(before)
		same := 0
		for same < min(len(before), len(content)) && before[same] == content[same] {
			same++
		}
		return name + " of an older copy", in(same)
	case 10: // that of another stream
		rest, _ := filepath.Rel(folder, file)
		other, err := os.ReadFile(filepath.Join(streamFolder(t, state, jetstream.AuditStream), rest))
		if errors.Is(err, fs.ErrNotExist) {
			other = []byte("another")
		}
		write(other)
		return name + " of another stream", in(0)
	case 11: // a number that the server would believe
		if places := h.blocks[name]; isBlock {
			at := int(places[random.IntN(len(places)-1)].end) + 4 + random.IntN(8)
			content[at] ^= 1 << random.IntN(8)
			write(content)
			return fmt.Sprintf("a bit of a number in %s changed at %d of %d", name, at, len(content)), in(at)
		}
		fallthrough
	default:
		switch random.IntN(4) {
		case 0:
			for _, b := range blocks {
				noError(t, os.Remove(b))
			}
			return "all blocks removed", 0
		case 1:
			for _, f := range files {
				if filepath.Ext(f) != ".blk" {
					noError(t, os.Remove(f))
				}
			}
			return "all but the blocks removed", all
		case 2:
			noError(t, os.RemoveAll(folder))
			return "the folder removed", 0
		default:
			noError(t, os.RemoveAll(folder))
			noError(t, os.CopyFS(folder, os.DirFS(streamFolder(t, h.old, jetstream.CommitStream))))
			return "the folder of an older copy", 0
		}
	}
}

// judge starts a mesh on a damaged state, of which good decisions are whole.
func (h *history) judge(t *testing.T, folder string, good int) (outcome string) {
	t.Helper()
	refused := h.start(t, folder, 0)
	if refused == nil {
		damage := h.compare(t, folder, len(h.decisions))
		if damage == nil {
			return "started, with everything"
		}
		// A start from a snapshot reads what is in front of it later.
		if refused = h.start(t, folder, time.Minute); refused == nil {
			t.Errorf("undetected: %v", damage)
			return "undetected"
		}
		outcome = ", when it served already"
	}
	reasons := map[string]error{"damaged": jetstream.ErrRecord, "records lost": jetstream.ErrLost, "does not replay": state.ErrReplay}
	outcome = "refused" + outcome + ": without a remedy"
	for reason, err := range reasons {
		if errors.Is(refused, err) {
			outcome = strings.Replace(outcome, "without a remedy", reason, 1)
		}
	}
	failIf(t, strings.HasSuffix(outcome, "remedy"), "%s: %v", outcome, refused)
	var file bytes.Buffer
	backUp := func(w io.Writer, o mesh.BackupOptions) error {
		return mesh.Use(t.Context(), folder, h.definition, func(s *mesh.Source) error {
			_, err := s.Backup(t.Context(), w, o)
			return err
		})
	}
	if err := backUp(io.Discard, mesh.BackupOptions{}); err == nil {
		t.Error("a backup is made of it without a word")
	}
	err := backUp(&file, mesh.BackupOptions{Salvage: true})
	if good == 0 && errors.Is(err, jetstream.ErrNothingToSalvage) {
		return outcome + ", nothing to salvage"
	}
	if err != nil {
		t.Errorf("salvaging: %v", err)
		return outcome + ", not salvaged"
	}
	restored := filepath.Join(filepath.Dir(folder), "restored")
	if _, err := mesh.Restore(t.Context(), []io.ReadSeeker{bytes.NewReader(file.Bytes())}, restored, mesh.BackupOptions{}); err != nil {
		t.Errorf("restoring: %v", err)
		return outcome + ", not restored"
	}
	if err := h.start(t, restored, 0); err != nil {
		t.Errorf("starting on what was restored: %v", err)
		return outcome + ", not started again"
	}
	if err := h.compare(t, restored, good); err != nil {
		t.Errorf("salvaged: %v", err)
		return outcome + ", salvaged too little"
	}
	return outcome + ", salvaged"
}

// start starts a mesh on a state, ends it when it has ended by itself or after
// the patience, and returns why it did not start or go on.
func (h *history) start(t *testing.T, state string, patience time.Duration) error {
	t.Helper()
	m, err := mesh.Start(t.Context(), mesh.Config{Definition: h.definition, State: state, Version: "test"})
	if err != nil {
		return err
	}
	select {
	case <-m.Done():
	case <-time.After(patience):
	}
	return m.Stop(context.Background())
}

// compare says what is wrong with the journal of a state: it has at least the
// first good decisions of the history, and then new ones.
func (h *history) compare(t *testing.T, state string, good int) error {
	t.Helper()
	records, keys, err := journalIn(t, state, h.definition)
	if err != nil {
		return err
	}
	if _, err := meshtest.CheckJournal(records, keys, nil); err != nil {
		return err
	}
	var found [][sha256.Size]byte
	for _, r := range records {
		found = append(found, digestsOf(t, r)...)
	}
	same := 0
	for same < min(len(found), len(h.decisions)) && found[same] == h.decisions[same] {
		same++
	}
	if same < good {
		return fmt.Errorf("it has %d of %d decisions", same, good)
	}
	return nil
}

func digestsOf(t *testing.T, record []byte) (digests [][sha256.Size]byte) {
	t.Helper()
	var r struct {
		Decisions [][]byte `msgpack:"d"`
	}
	noError(t, mp.Unmarshal(record, &r))
	for _, d := range r.Decisions {
		digests = append(digests, sha256.Sum256(d))
	}
	return digests
}

// journalIn reads the messages of a journal, of which the server may have changed
// the files, and the keys that they are sealed under.
func journalIn(t *testing.T, state string, definition *bcp.Mesh) (records [][]byte, keys map[string][]byte, err error) {
	t.Helper()
	js, end := meshtest.OpenStreams(t, state, definition)
	defer end()
	if _, err := js.Stream(t.Context(), jetstream.CommitStream); err != nil {
		return nil, nil, err
	}
	return meshtest.ReadJournal(t, js), meshtest.ReadKeys(t, js), nil
}

func streamFolder(t *testing.T, state, stream string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(state, "jetstream", "jetstream", "*", "streams", stream))
	stopIf(t, err != nil || len(found) != 1, "the folder of %s: %v %v", stream, found, err)
	return found[0]
}

// journalFiles returns the files of the journal that are not empty.
func journalFiles(t *testing.T, state string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(streamFolder(t, state, jetstream.CommitStream), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > 0 && !strings.HasSuffix(name, ".tmp") {
			files = append(files, name)
		}
		return err
	})
	stopIf(t, err != nil || len(files) < 3, "files of the journal: %v %v", files, err)
	return files
}
