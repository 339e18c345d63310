package bridges

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// natsContext is how a context of the nats CLI says to connect.
type natsContext struct {
	url     string
	options []nats.Option
}

// readNATSContext reads a context of the nats CLI, by its name or its file. Its keys url,
// creds and ca are followed; one that says to connect in another way is refused, since
// the connection would not be the one that it means.
func readNATSContext(name string) (natsContext, error) {
	file := name
	if !strings.ContainsRune(name, filepath.Separator) && filepath.Ext(name) != ".json" {
		config, err := os.UserConfigDir()
		if err != nil {
			return natsContext{}, cli.Failf("--context %s: %s", cli.Quoted(name), cli.FileReason(err)).WithHint("name the file of the context")
		}
		file = filepath.Join(config, "nats", "context", name+".json")
	}
	text, err := cli.ReadSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		return natsContext{}, cli.Failf("there is no context %s", cli.Quoted(name)).WithHint("nats context save %s --server nats://HOST --creds FILE makes one", name)
	}
	if err != nil {
		return natsContext{}, cli.Failf("--context %s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
	}
	var keys map[string]jsontext.Value
	if err := json.Unmarshal(text, &keys); err != nil {
		return natsContext{}, cli.Failf("the context %s is not a JSON object: %s", cli.Quoted(name), cli.FileReason(err))
	}
	values := map[string]string{}
	for key, v := range keys {
		var value string
		_ = json.Unmarshal(v, &value) // other kinds of value say nothing about the connection
		values[key] = value
	}
	for _, key := range slices.Sorted(slices.Values([]string{"user", "password", "token", "nkey", "nsc", "cert", "key", "socks_proxy", "user_jwt", "user_seed", "windows_cert_store"})) {
		if values[key] != "" {
			return natsContext{}, cli.Failf("the context %s connects with %s, which is not supported", cli.Quoted(name), key).WithHint("make one with a server and a creds file: nats context save NAME --server URL --creds FILE")
		}
	}
	c := natsContext{url: values["url"]}
	if c.url == "" {
		return natsContext{}, cli.Failf("the context %s has no url", cli.Quoted(name))
	}
	if values["creds"] != "" {
		c.options = append(c.options, nats.UserCredentials(values["creds"]))
	}
	if values["ca"] != "" {
		c.options = append(c.options, nats.RootCAs(values["ca"]))
	}
	if values["inbox_prefix"] != "" {
		c.options = append(c.options, nats.CustomInboxPrefix(values["inbox_prefix"]))
	}
	return c, nil
}
