package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// children are the processes of a parent, by their command lines.
func children(t *testing.T, parent int) map[int]string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	stopIf(t, err != nil || len(stats) == 0, "there is no /proc: %v", err)
	found := map[int]string{}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // behind its name
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline")) // it may have ended
		found[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found
}

// holds reports whether a text is in the memory or the environment of a process.
func holds(t *testing.T, pid int, text string) bool {
	t.Helper()
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	environ := readFile(t, filepath.Join(folder, "environ"))
	memory := must(os.Open(filepath.Join(folder, "mem")))(t)
	defer func() { _ = memory.Close() }() // nothing was written
	maps := readFile(t, filepath.Join(folder, "maps"))
	found := bytes.Contains(environ, []byte(text))
	read := 0
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") {
			continue
		}
		const piece = 1 << 20
		buffer := make([]byte, piece+len(text))
		for at := from; at < to; at += piece {
			n, err := memory.ReadAt(buffer[:min(int64(len(buffer)), to-at)], at)
			if err != nil && !errors.Is(err, io.EOF) && n == 0 {
				break // what is reserved and not there
			}
			read += n
			found = found || bytes.Contains(buffer[:n], []byte(text))
		}
	}
	failIf(t, read == 0, "nothing of the memory of process %d could be read", pid)
	return found
}

// The key of a model is with the keeper of an agent alone: not with the cell, where the
// model's words are heard, nor in anything that is kept.
//
// covers ALF-3
func TestModelKeyStaysWithTheKeeper(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	canary := "sk-" + strings.Repeat("canary", 5) + t.Name()
	c := newTerminal(t)
	c.env = append(c.env, "DESK_KEY="+canary)
	asked, looked := make(chan string, 1), make(chan struct{})
	listener := must(net.Listen("tcp", c.withFreePorts("127.0.0.1:8000")))(t)
	answers := completions(t, make(chan string, 1))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("Authorization")
		<-looked
		answers.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	c.run(ctx, "bcpmesh init desk --model openai/x --endpoint http://127.0.0.1:8000/v1")
	c.run(ctx, "cd desk")
	c.run(ctx, `sed -i 's/provider: openai,/provider: openai, key: "env:DESK_KEY",/' mesh.yaml`)
	c.run(ctx, "bcpmesh up")
	answered := make(chan error, 1)
	go func() {
		out, err := c.command(ctx, "bcpmesh query researcher --boolean breaking").CombinedOutput()
		if err == nil && !bytes.Contains(out, []byte("true")) {
			err = fmt.Errorf("it says %s", out)
		}
		answered <- err
	}()
	select {
	case got := <-asked:
		expect(t, got, "Bearer "+canary, "the model is called with")
	case err := <-answered:
		t.Fatal("no model was asked: ", err)
	}

	text := must(c.command(ctx, `sed 's/.*"pid":\([0-9]*\).*/\1/' .bcpmesh/mesh.json`).Output())(t)
	mesh := must(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	cells := 0
	for keeper, line := range children(t, mesh) {
		if !strings.Contains(line, "agent run") {
			continue
		}
		failIf(t, !holds(t, keeper, canary),
			"the keeper, %q, is not found to have the key that it calls with: what looks for it sees nothing", line)
		for cell, line := range children(t, keeper) {
			cells++
			failIf(t, holds(t, cell, canary), "%q has the key of the model", line)
		}
	}
	expect(t, cells, 1, "cells are found")
	close(looked)
	if err := <-answered; err != nil {
		t.Error(err)
	}

	var with []string
	err := filepath.WalkDir(c.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // it is gone
		}
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(canary)) {
			with = append(with, path)
		}
		return nil
	})
	if err != nil || len(with) > 0 {
		slices.Sort(with)
		t.Errorf("the key is in %q, %v", with, err)
	}
}
