//go:build linux && (amd64 || arm64)

package process_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/agents/process"
)

// family is what the test binary is as a program: `keeper` starts a family of /bin/sh; `mesh` starts a keeper.
const family = `trap "" HUP INT TERM; (sleep 600) & (sleep 600 & exec sleep 600) & echo grown; sleep 600 & wait`

// growFamily starts the family, and stays until it is gone.
func growFamily(who string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", family}, Env: os.Environ(), Stdout: os.Stdout}
	if who == "mesh" {
		cmd = &exec.Cmd{Path: self, Args: []string{self, "family", "keeper"}, Env: os.Environ(), Stdout: os.Stdout}
	}
	running, err := process.Start(cmd)
	if err != nil {
		return err
	}
	fmt.Println("grown")
	<-running.Done()
	return nil
}

// Whoever is killed takes the whole family of its programs with it, not their first processes alone.
//
// covers P7.5, A-OUTLIVE
func TestKilledWithItsFamily(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"keeper", "mesh"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(self(t), "family", who)
			family, err := cmd.StdoutPipe() // all of them hold its other end
			noError(t, err)
			noError(t, cmd.Start())
			lines := bufio.NewReader(family)
			for range map[string]int{"keeper": 2, "mesh": 3}[who] { // each of them, and the programs
				line, err := lines.ReadString('\n')
				stopIf(t, err != nil || line != "grown\n", "%v %v", line, err)
			}
			noError(t, cmd.Process.Kill())
			end := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, lines)
				end <- err
			}()
			select {
			case err := <-end:
				failIf(t, err != nil, "%v", err)
			case <-time.After(20 * time.Second):
				t.Error("some of the family live on")
			}
			fails(t, cmd.Wait(), nil, "it was not killed")
		})
	}
}
