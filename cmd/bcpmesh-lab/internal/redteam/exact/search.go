package exact

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// Outcome is the result of [Game.Search].
type Outcome struct {
	Strategies  int // of the adversary
	Transcripts int // number of different transcripts that the Controller could get
	// Weight is the sum of 2^-charge over all transcripts, rounded up; a charge
	// is in capacity bits, the least if there are several.
	Weight *big.Float
	// Parts are the weights of single queries and subscriptions, with all other
	// events fixed: the greatest for each limit.
	Parts []Part
	// Most is the greatest charge of a transcript.
	Most bcp.Bits
	// Free is the number of transcripts without charged nominal bits. One of
	// them is that of silent Readers.
	Free int
	// Ambiguous is a transcript that comes with two charges, empty for none.
	Ambiguous string
	// Clock is a transcript that reveals more than is charged: by some tick, with
	// the same ends of queries and the same pushes in all past release slots, the
	// Controller could get a different one. It is empty for none.
	Clock string
}

// Part is the maximum contribution of one query or subscription to the weight, with
// its limit (bcp/CAPACITY.md, 3 to 5).
type Part struct {
	Name          string
	Weight, Limit *big.Float
}

// charge is the charge of a transcript.
type charge struct{ nominal, capacity bcp.Bits }

// search is a [Game.Search] under way.
type search struct {
	game    *Game
	charges map[[sha256.Size]byte]charge // by transcript
	known   map[[sha256.Size]byte]string // transcripts by what was charged for
	weights map[bcp.Bits]*big.Float
	parts   map[[sha256.Size]byte]*Part
	out     Outcome
}

// Search plays the game in every way. It fails if the state refuses a decision of its
// own, one of the limits of the Controller's channels does not hold, or something is
// charged that nobody gets.
func (g *Game) Search() (Outcome, error) {
	g.Config.Verify = func(string, []byte, []byte) bool { return true }
	state, err := state.New(g.Config)
	if err != nil {
		return Outcome{}, err
	}
	s := &search{
		game: g, charges: map[[sha256.Size]byte]charge{}, known: map[[sha256.Size]byte]string{},
		weights: map[bcp.Bits]*big.Float{}, parts: map[[sha256.Size]byte]*Part{}, out: Outcome{Weight: upward()},
	}
	first := &Position{game: g, state: state, Tick: -1}
	first.commit(state.DecideStart(first.moment(), "game"))
	err = s.play(first)
	s.out.Transcripts = len(s.charges)
	s.sumWeights()
	return s.out, err
}

func (s *search) play(p *Position) error {
	p.Tick++
	p.releaseDue()
	if p.err != nil {
		return p.failed()
	}
	if p.Tick == len(s.game.Ticks) {
		s.clock(p)
		s.end(p)
		return nil
	}
	moves := s.game.Moves(p)
	for i, move := range moves {
		next := p
		if i < len(moves)-1 {
			next = p.branch()
		}
		move(next)
		s.game.Act(next)
		next.limits()
		s.clock(next)
		if next.err != nil {
			return next.failed()
		}
		if err := s.play(next); err != nil {
			return err
		}
	}
	return nil
}

// end adds a transcript to the result, if it is new.
func (s *search) end(p *Position) {
	s.out.Strategies++
	now := charge{p.nominal, p.capacity}
	s.out.Most = max(s.out.Most, p.capacity)
	before, again := s.charges[p.heard]
	switch {
	case !again:
		s.charges[p.heard] = now
		s.addWeights(p)
	case before != now:
		s.charges[p.heard] = charge{min(before.nominal, now.nominal), min(before.capacity, now.capacity)}
		if s.out.Ambiguous == "" {
			s.out.Ambiguous = fmt.Sprintf("%v and %v:\n%s", before, now, strings.Join(p.Heard, "\n"))
		}
	}
}

func (s *search) weight(b bcp.Bits) *big.Float {
	if s.weights[b] == nil {
		s.weights[b] = Weight(b)
	}
	return s.weights[b]
}

// addWeights adds a transcript to the weights of its parts: for each, transcripts with
// the same rest are added up.
func (s *search) addWeights(p *Position) {
	names := map[string]int{} // with the subscriptions of the channel, 0 for a query
	for _, c := range s.game.Config.Mesh.Channels {
		for _, sub := range c.Subscriptions {
			if c.Controller == s.game.Controller {
				names[subscriptionPart(c.Reader, sub.ID)] = len(c.Subscriptions)
			}
		}
	}
	for _, e := range p.charged {
		names[e.part] += 0
	}
	for name, n := range names {
		var rest []string
		var charge bcp.Bits
		pushes, answers, run := 0, false, false
		for _, e := range p.charged {
			if e.part != name {
				rest = append(rest, e.slot.Format(time.TimeOnly)+" "+e.what)
				continue
			}
			charge += e.charge
			answers, run = answers || e.answers, run || e.run
			if e.push {
				pushes++
			}
		}
		slices.Sort(rest)
		switch {
		case run:
			s.add("the ends of a run", name, rest, charge, big.NewRat(1, 1))
		case n == 0 && answers:
			s.add("answers to a query", name, rest, charge, big.NewRat(1, 2))
		case n == 0:
			s.add("failures of a query", name, rest, charge, big.NewRat(1, 2))
		default: // 1 + 0.6/(n - 0.26), and half of 1/n
			s.add("the life of a subscription", name, rest, charge, new(big.Rat).Add(big.NewRat(1, 1), big.NewRat(60, int64(100*n-26))))
			if pushes == 1 {
				s.add("one push of a subscription", name, rest, charge, big.NewRat(1, int64(2*n)))
			}
		}
	}
}

func (s *search) add(kind, name string, rest []string, charge bcp.Bits, limit *big.Rat) {
	key := sha256.Sum256([]byte(kind + "\n" + name + "\n" + strings.Join(rest, "\n")))
	if s.parts[key] == nil {
		s.parts[key] = &Part{kind, upward(), upward().SetRat(limit)}
	}
	part := s.parts[key]
	part.Weight.Add(part.Weight, s.weight(charge))
}

// sumWeights adds up the transcripts, and keeps the greatest weight of each kind of part
// and limit.
func (s *search) sumWeights() {
	for _, c := range s.charges {
		s.out.Weight.Add(s.out.Weight, s.weight(c.capacity))
		if c.nominal == 0 {
			s.out.Free++
		}
	}
	for _, part := range s.parts {
		i := slices.IndexFunc(s.out.Parts, func(p Part) bool { return p.Name == part.Name && p.Limit.Cmp(part.Limit) == 0 })
		switch {
		case i < 0:
			s.out.Parts = append(s.out.Parts, *part)
		case s.out.Parts[i].Weight.Cmp(part.Weight) < 0:
			s.out.Parts[i] = *part
		}
	}
	slices.SortFunc(s.out.Parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
}

// clock compares a transcript so far with those of other plays with the same charges
// in past slots.
func (s *search) clock(p *Position) {
	over := []string{fmt.Sprint(p.Tick)}
	for _, e := range p.charged {
		if !e.slot.After(p.Now()) {
			over = append(over, e.slot.Format(time.TimeOnly)+" "+e.what)
		}
	}
	slices.Sort(over[1:])
	what, heard := sha256.Sum256([]byte(strings.Join(over, "\n"))), strings.Join(p.Heard, "\n")
	if other, again := s.known[what]; !again {
		s.known[what] = heard
	} else if other != heard && s.out.Clock == "" {
		s.out.Clock = fmt.Sprintf("with %q it heard\n%s\nor\n%s", over[1:], other, heard)
	}
}

const weightPrecision = 160

// upward is 0; whatever is computed into it is rounded up.
func upward() *big.Float {
	return new(big.Float).SetPrec(weightPrecision).SetMode(big.ToPositiveInf)
}

// Weight is 2^-b, rounded up: the whole bits exactly, the rest by roots of a half.
func Weight(b bcp.Bits) *big.Float {
	result := upward().SetInt64(1)
	root := upward().SetMantExp(result, -1)
	fraction, one := big.NewRat(int64(b%bcp.Bit), int64(bcp.Bit)), big.NewRat(1, 1)
	for range 80 {
		if fraction.Sign() == 0 {
			break
		}
		// Sqrt rounds to the nearest: a unit in the last place more is above it.
		nearest := upward().Sqrt(root)
		root = upward().Add(nearest, new(big.Float).SetMantExp(nearest, -weightPrecision+1))
		if fraction.Add(fraction, fraction).Cmp(one) >= 0 {
			fraction.Sub(fraction, one)
			result.Mul(result, root)
		}
	}
	return upward().SetMantExp(result, -int(b/bcp.Bit))
}
