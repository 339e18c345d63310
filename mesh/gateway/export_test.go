package gateway

// Remembered counts what the gateway keeps of open runs.
func (g *Gateway) Remembered() int {
	n := make(chan int)
	g.tell(call(func() { n <- len(g.runs.waits) + len(g.runs.sent) + len(g.runs.unheard) + len(g.runs.todo) }))
	return <-n
}

// Links counts the connections that agents and people share, and those who do.
func (g *Gateway) Links() (connections, shares int) {
	g.linked.Lock()
	defer g.linked.Unlock()
	return len(g.pool), len(g.links)
}
