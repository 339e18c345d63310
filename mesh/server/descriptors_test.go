package server

import "testing"

// covers A-SLOW
func TestConnectionsForFiles(t *testing.T) {
	t.Parallel()
	const enough = reservedFiles + maxConnections
	for files, want := range map[uint64]int{
		enough: maxConnections, enough + 1: maxConnections, 1 << 63: maxConnections,
		enough - 1:          maxConnections - 1,
		reservedFiles + 100: 100, reservedFiles: leastConnections, 0: leastConnections,
	} {
		expect(t, connectionsFor(files), want, "with %d files", files)
	}
	got := FilesFor(maxConnections)
	failIf(t, got != enough, "the most need %d files, want %d", got, enough)
	if got := FilesFor(5000); got != 6_024 || connectionsFor(uint64(got)) != 5000 || connectionsFor(uint64(got-1)) != 4999 {
		t.Errorf("5000 connections need %d files, with which %d come in", got, connectionsFor(uint64(got)))
	}
	got = MaxConnections()
	failIf(t, got < leastConnections || got > maxConnections, "%d here", got)
}
