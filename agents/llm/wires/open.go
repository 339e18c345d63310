package wires

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Options are the options for opening a model.
type Options struct {
	// Env looks up an environment variable, like os.LookupEnv. Nil means an empty
	// environment.
	Env func(key string) (value string, set bool)
	// Folder is the base of relative paths.
	Folder string
	// Run runs a command in a key's place and returns its output, and Unseal opens a
	// sealed file. Nil means that this is not supported.
	Run    func(words []string) ([]byte, error)
	Unseal func(sealed []byte) ([]byte, error)
	// Transport sends requests; nil is one of our own.
	Transport http.RoundTripper
	MaxTokens int  // of a turn
	Token     bool // a key is a password, or a token of OAuth 2 after "Bearer ", which some servers want in place of one
}

// presets are the providers' URLs.
var presets = map[string]string{
	"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1",
	"google": "https://generativelanguage.googleapis.com", "ollama": "http://127.0.0.1:11434/v1",
}

// BaseOf returns the base URL of a provider: its own, or base if that is not empty. It is
// empty for a provider on this machine that needs no network.
func BaseOf(provider, base string) string {
	own, known := presets[provider]
	if !known {
		return ""
	}
	base = strings.TrimRight(cmp.Or(base, own), "/")
	if _, host, _ := strings.Cut(base, "://"); provider == "ollama" && !strings.Contains(host, "/") {
		base += "/v1" // OLLAMA_HOST has no path
	}
	return base
}

// ErrProvider says that there is no such provider.
var ErrProvider = errors.New("there is no such provider")

// Open returns a model, whose name is a file of the folder for script and replay, and whose calls are retried as by [Patient]. The key is read at
// once. No error contains it.
func Open(s bcp.Model, o Options) (llm.Endpoint, error) {
	switch s.Provider {
	case "gullible":
		return llm.Endpoint{Provider: gullible{}, Model: s.Model, MaxTokens: o.MaxTokens}, nil
	case "replay":
		content, err := readRegular(inFolder(o.Folder, s.Model), "transcript", maxTranscript)
		if err != nil {
			return llm.Endpoint{}, err
		}
		recorded, err := NewReplay(content)
		return llm.Endpoint{Provider: recorded, Model: s.Model, MaxTokens: o.MaxTokens}, err
	case "script":
		script, err := readScript(inFolder(o.Folder, s.Model))
		return llm.Endpoint{Provider: script, Model: s.Model, MaxTokens: o.MaxTokens}, err
	}
	base := BaseOf(s.Provider, s.BaseURL)
	if base == "" {
		return llm.Endpoint{}, ErrProvider
	}
	key, err := ReadKey(s.Key, "the key of the model", o)
	if err != nil {
		return llm.Endpoint{}, err
	}
	c := client{base: base, key: key, http: newHTTP(o.Transport)}
	var w llm.Provider
	switch s.Provider {
	case "anthropic":
		w = &anthropic{c}
	case "google":
		w = &google{c}
	default:
		chat := &openAI{client: c}
		chat.newer.Store(s.Provider == "openai" && s.BaseURL == "")
		w = chat
	}
	return llm.Endpoint{Provider: &Patient{Provider: w}, Model: s.Model, MaxTokens: o.MaxTokens}, nil
}

func inFolder(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// readRegular reads a file of at most most bytes. Its error has the file's purpose and
// name.
func readRegular(path, what string, most int64) ([]byte, error) {
	content, err := disk.ReadFile(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the %s %s is not there", what, filepath.Base(path))
	}
	if err != nil {
		return nil, fmt.Errorf("the %s %s cannot be read", what, filepath.Base(path))
	}
	return content, nil
}

const maxKey = 4 << 10 // bytes of a file with a key

// sealedSuffix is the suffix of a file encrypted with age.
const sealedSuffix = ".age"

// ReadKey reads a key from its place: env:NAME; file:PATH relative to [Options.Folder],
// sealed if PATH ends in .age; or command:WORDS, separated by blanks and run without a
// shell, for the command's output. An empty place has no key. The error says what the key
// is for, and does not contain it.
func ReadKey(place, of string, o Options) (string, error) {
	if place == "" {
		return "", nil
	}
	key, err := o.read(place)
	if err != nil {
		return "", fmt.Errorf("%s: %w", of, err)
	}
	text := strings.TrimSpace(string(key))
	bare, least := text, '!'
	if rest, token := strings.CutPrefix(text, "Bearer "); o.Token && token {
		bare = rest
	} else if o.Token {
		least = ' ' // a password may have blanks
	}
	if bare == "" || strings.ContainsFunc(bare, func(r rune) bool { return r < least || r > '~' }) {
		return "", fmt.Errorf("%s: that is not a key", of)
	}
	return text, nil
}

func (o Options) read(place string) ([]byte, error) {
	kind, where, _ := strings.Cut(place, ":")
	switch kind {
	case "env":
		key := ""
		if o.Env != nil {
			key, _ = o.Env(where)
		}
		if key == "" {
			return nil, fmt.Errorf("the environment variable %s is not set", where)
		}
		return []byte(key), nil
	case "file":
		return o.readFile(where)
	case "command":
		words := strings.Fields(where)
		if len(words) == 0 || o.Run == nil {
			return nil, errors.New("no command is run here")
		}
		key, err := o.Run(words)
		if err != nil {
			return nil, fmt.Errorf("the command %s: %w", words[0], err)
		}
		return key, nil
	}
	return nil, errors.New("expected env:NAME, file:PATH or command:WORDS")
}

func (o Options) readFile(name string) ([]byte, error) {
	path := inFolder(o.Folder, name)
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read %s: chmod 600 it", name)
	}
	content, err := disk.ReadFile(path, maxKey)
	switch {
	case errors.Is(err, disk.ErrNotRegular), errors.Is(err, disk.ErrTooLarge):
		return nil, fmt.Errorf("%s holds no key", name)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read", name)
	}
	if !strings.HasSuffix(name, sealedSuffix) {
		return content, nil
	}
	if o.Unseal == nil {
		return nil, fmt.Errorf("%s is sealed, and nothing opens it here", name)
	}
	if content, err = o.Unseal(content); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}
