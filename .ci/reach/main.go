// Command reach exits 0 if the HTTP address in its one argument answers with
// success within ten seconds. The CI uses it to find out whether a step that
// needs the network can run; it honours the usual proxy variables.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reach URL")
		os.Exit(2)
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Head(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, response.Status)
		os.Exit(1)
	}
}
