package text

import "bytes"

// Limits of an e-mail address: RFC 5321 section 4.5.3.1, and RFC 1035 for a label.
const (
	maxLocalBytes = 64
	maxLabelBytes = 63
	maxEmailBytes = 254
	// DefaultEmailChars is the limit of an address when a question names none.
	DefaultEmailChars = 64
)

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
	at := bytes.IndexByte(src, '@')
	if at < 0 || !dotAtom(src[:at]) || !hostName(src[at+1:]) {
		return nil, ErrEmail
	}
	for _, b := range src {
		if b-'A' < 26 {
			b |= 0x20
		}
		dst = append(dst, b)
	}
	return dst, nil
}

// dotAtom checks a local part: atoms of RFC 5322 joined by single full stops.
func dotAtom(local []byte) bool {
	if len(local) == 0 || len(local) > maxLocalBytes {
		return false
	}
	last := byte('.')
	for _, b := range local {
		switch {
		case b == '.':
			if last == '.' {
				return false
			}
		case b-'0' < 10, b|0x20-'a' < 26, bytes.IndexByte([]byte("!#$%&'*+-/=?^_`{|}~"), b) >= 0:
		default:
			return false
		}
		last = b
	}
	return last != '.'
}

// hostName checks a domain: labels of letters, digits and inner hyphens.
func hostName(host []byte) bool {
	labels, begun, letters := 0, 0, false
	for i := 0; i <= len(host); i++ {
		if i == len(host) || host[i] == '.' {
			label := host[begun:i]
			if len(label) == 0 || len(label) > maxLabelBytes || label[0] == '-' || label[len(label)-1] == '-' {
				return false
			}
			labels++
			begun = i + 1
			if i < len(host) {
				letters = false
			}
			continue
		}
		switch b := host[i]; {
		case b|0x20-'a' < 26:
			letters = true
		case b-'0' < 10, b == '-':
		default:
			return false
		}
	}
	return labels > 1 && letters
}
