package gateway

// Remembered counts what the gateway keeps of open runs.
func (g *Gateway) Remembered() int {
	n := make(chan int)
	g.tell(event{call: func() { n <- len(g.runs.waits) + len(g.runs.sent) + len(g.runs.unheard) + len(g.runs.todo) }})
	return <-n
}
