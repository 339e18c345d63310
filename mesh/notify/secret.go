package notify

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// secret is a URL or a password; printing it shows nothing.
type secret string

// Format implements [fmt.Formatter] for every verb.
func (secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// MarshalText implements [encoding.TextMarshaler].
func (secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Place is where routes find secrets and programs: the folder of mesh.yaml, and the
// environment of this program.
type Place struct {
	Folder  string
	Environ []string
}

// read returns a secret without surrounding white space. Errors name its place.
func (p Place) read(name bcp.SecretName) (secret, error) {
	text := ""
	switch {
	case name.Variable != "":
		for _, entry := range p.Environ {
			if value, ok := strings.CutPrefix(entry, name.Variable+"="); ok {
				text = value
			}
		}
	case name.File != "":
		content, err := disk.ReadFile(p.path(name.File), maxSecret)
		if err != nil && !errors.Is(err, disk.ErrTooLarge) {
			return "", failure(fmt.Sprintf("%s cannot be read", name))
		}
		if text = string(content); err != nil {
			return "", failure(fmt.Sprintf("%s is longer than %d bytes", name, maxSecret))
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", failure(fmt.Sprintf("%s is empty or not there", name))
	}
	if len(text) > maxSecret {
		return "", failure(fmt.Sprintf("%s is longer than %d bytes", name, maxSecret))
	}
	return secret(text), nil
}

func (p Place) path(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(p.Folder, file)
}

// failure is why a message was not sent, in our words: it contains nothing of a server's
// reply, nor of a URL.
type failure string

// Error implements error.
func (f failure) Error() string { return string(f) }

// Check checks that the secrets of a route can be read and have the required form.
func Check(route *bcp.Route, place Place) error {
	switch {
	case !route.Webhook.IsZero():
		text, err := place.read(route.Webhook)
		if err == nil {
			_, err = parseWebhook(text)
		}
		return err
	case !route.Password.IsZero():
		_, err := place.read(route.Password)
		return err
	}
	return nil
}
