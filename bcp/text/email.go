package text

import (
	"bytes"
	"regexp"
)

// Limits of an e-mail address: RFC 5321 section 4.5.3.1.
const (
	maxLocalBytes = 64
	maxEmailBytes = 254
	// DefaultEmailChars is the limit of an address when a question names none.
	DefaultEmailChars = 64
)

// dotAtom is a local part: atoms of RFC 5322 joined by single full stops. hostName is labels of letters, digits and inner hyphens
// (RFC 1035), and lastLabel has a letter.
var (
	dotAtom   = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+(?:\\.[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+)*$")
	hostName  = regexp.MustCompile(`^(?:` + label + `\.)+` + label + `$`)
	lastLabel = regexp.MustCompile(`[A-Za-z][^.]*$`)
)

const label = `[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?`

// ParseEmail appends the canonical form of an address to dst (PROTOCOL P3.2): ASCII, lower case, a dot-atom, @, and a host name of two
// or more labels whose last is not a number. White space around it is dropped; quoted strings, comments and IP literals are refused. maxChars is
// 1 to 254; 0 stands for DefaultEmailChars. The errors are ErrEmail and ErrTooLong.
func ParseEmail(dst, src []byte, maxChars int) ([]byte, error) {
	if maxChars == 0 {
		maxChars = DefaultEmailChars
	}
	src = bytes.Trim(src, " \t\r\n")
	if len(src) > maxEmailBytes || len(src) > maxChars {
		return nil, ErrTooLong
	}
	local, host, _ := bytes.Cut(src, []byte("@"))
	if len(local) > maxLocalBytes || !dotAtom.Match(local) || !hostName.Match(host) || !lastLabel.Match(host) {
		return nil, ErrEmail
	}
	return append(dst, bytes.ToLower(src)...), nil
}
