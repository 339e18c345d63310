// Witness serves the stock witness of transparency-dev, in memory, for one log: it prints
// its verifier key and its URL, and serves until it is ended.
//
//	witness KEY-OF-LOG
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/witness/persistence/inmemory"
	stock "github.com/transparency-dev/witness/witness"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: witness KEY-OF-LOG")
	}
	known, err := note.NewVerifier(args[0])
	if err != nil {
		return err
	}
	private, public, err := note.GenerateKey(rand.Reader, "stock.example/w")
	if err != nil {
		return err
	}
	signer, err := f_note.NewSignerForCosignatureV1(private)
	if err != nil {
		return err
	}
	key, err := f_note.VKeyToCosignatureV1(public)
	if err != nil {
		return err
	}
	w, err := stock.New(context.Background(), stock.Opts{Persistence: inmemory.New(), Signers: []note.Signer{signer},
		VerifierForLog: func(_ context.Context, origin string) (note.Verifier, bool, error) {
			return known, origin == known.Name(), nil
		}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("%s http://%s\n", key, listener.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", stock.NewHTTPHandler(w).AddCheckpoint)
	return http.Serve(listener, mux)
}
