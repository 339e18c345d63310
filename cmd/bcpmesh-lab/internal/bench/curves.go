package bench

import "fmt"

// flat is how much dearer a message may be at the far end of a curve.
const flat = 1.25

// channels measures the cost of a push among increasingly many channels, which
// take turns. More channels also mean more agents: floor B, which has no
// channels, shows the cost of their connections.
func (r *runner) channels() error {
	var shapes []shape
	for _, pair := range [][2]int{{2, 5}, {10, 10}, {25, 40}, {100, 100}} {
		shapes = append(shapes, shape{Readers: pair[0], Controllers: pair[1], Crossed: true})
	}
	if r.options.Quick {
		shapes = shapes[:2]
	}
	limit := atMost(flat, "x the first")
	kinds := []struct {
		order order
		limit *bound
		curve Curve
	}{
		{order{Kind: kindRecord, Deliver: true}, nil, Curve{Name: "processor time of a push to floor B", Over: "channels", Unit: "µs"}},
		{order{Kind: kindMesh}, &limit, Curve{Name: "processor time of a push", Over: "channels", Unit: "µs"}},
	}
	var paths []path // of each shape the floor, then the mesh
	for _, one := range shapes {
		for _, kind := range kinds {
			kind.order.Shape = one
			paths = append(paths, path{kind.order.Kind, kind.order, everybody})
		}
	}
	sides, stop, err := r.startAll(paths...)
	if err != nil {
		return err
	}
	defer stop()
	used, err := r.pushes(sides, func(i int) shape { return shapes[i/len(kinds)] })
	if err != nil {
		return err
	}
	for k, kind := range kinds {
		for i, one := range shapes {
			kind.curve.Steps = append(kind.curve.Steps, Point{one.channels(), used[i*len(kinds)+k]})
		}
		r.curve("channels", kind.curve, kind.limit)
	}
	return nil
}

// decisions measures the cost of a push and a start after an increasingly long history.
func (r *runner) decisions() error {
	counts := []int{1_000, 10_000, 100_000, 1_000_000}
	if r.options.Quick {
		counts = counts[:2]
	}
	cost := Curve{Name: "processor time of a push", Over: "decisions in history", Unit: "µs"}
	start := Curve{Name: "start", Over: "decisions in history", Unit: "ms"}
	var paths []path
	for _, n := range counts {
		paths = append(paths, path{pathMesh, order{Kind: kindMesh, Shape: straight, History: n}, everybody})
	}
	sides, stop, err := r.startAll(paths...)
	if err != nil {
		return err
	}
	defer stop()
	used, err := r.pushes(sides, func(int) shape { return straight })
	if err != nil {
		return err
	}
	for i, n := range counts {
		cost.Steps = append(cost.Steps, Point{n, used[i]})
		start.Steps = append(start.Steps, Point{n, float64(sides[i].started.Took.Milliseconds())})
	}
	limit := atMost(flat, "x the first")
	r.curve("decisions", cost, &limit)
	r.report.Curves = append(r.report.Curves, start)
	last := start.Steps[len(start.Steps)-1]
	r.report.add(Figure{Name: "decisions", What: fmt.Sprintf("start behind %d", last.At), Value: last.Value, Unit: "ms"}, nil)
	again, err := sides[len(sides)-1].host.do(order{Do: doRestart})
	if err != nil {
		return err
	}
	limit = atMost(2000, " ms")
	r.report.add(Figure{Name: "decisions", What: fmt.Sprintf("start behind %d, from a snapshot", last.At), Value: float64(again.Took.Milliseconds()), Unit: "ms"}, &limit)
	return nil
}

// pushes returns the processor time of a push on each side, of the given shape, including its projections. The sides take turns.
func (r *runner) pushes(sides []*side, shapeOf func(i int) shape) ([]float64, error) {
	used := make([][]float64, len(sides))
	for round := range r.rounds + 1 {
		for i, s := range sides {
			m, err := s.load(load{Mode: modePush, InFlight: 16, Shape: shapeOf(i), Duration: r.options.Duration})
			if err != nil {
				return nil, err
			}
			if round > 0 {
				used[i] = append(used[i], m.usedProjected)
			}
		}
	}
	medians := make([]float64, len(sides))
	for i := range used {
		medians[i] = median(used[i])
	}
	return medians, nil
}

// curve adds a curve and compares its ends.
func (r *runner) curve(name string, c Curve, limit *bound) {
	r.report.Curves = append(r.report.Curves, c)
	first, last := c.Steps[0], c.Steps[len(c.Steps)-1]
	r.report.add(Figure{Name: name, What: fmt.Sprintf("%s, %d %s", c.Name, last.At, c.Over), InFlight: 16, Value: last.Value,
		Floor: first.Value, FloorIs: fmt.Sprintf("at %d", first.At), Unit: c.Unit}, limit)
}
