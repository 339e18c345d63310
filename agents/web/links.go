package web

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
)

const (
	maxLinks      = 2000    // of a page
	maxLinkSource = 4 << 20 // bytes in which links are looked for: as many as are parsed
)

// findLinks returns the links of the body by the value of their attribute, verbatim and
// unescaped.
func findLinks(body fetch.Body) map[string]Link {
	links := map[string]Link{}
	base := body.Target
	z := html.NewTokenizer(bytes.NewReader(body.Bytes[:min(len(body.Bytes), maxLinkSource)]))
	for offset := 0; len(links) < maxLinks; {
		token := z.Next()
		if token == html.ErrorToken {
			break
		}
		raw := z.Raw()
		if token == html.StartTagToken || token == html.SelfClosingTagToken {
			if name, _ := z.TagName(); string(name) == "a" || string(name) == "area" {
				if start, end, ok := findHref(raw); ok {
					value := html.UnescapeString(string(raw[start:end]))
					if _, seen := links[value]; !seen {
						if target, err := fetch.ResolveLink(base, raw[start:end]); err == nil {
							links[value] = Link{URL: target.String(), Start: offset + start, End: offset + end}
						}
					}
				}
			}
		}
		offset += len(raw)
	}
	return links
}

// findHref returns the position of the value of the first href in the bytes of a tag.
func findHref(tag []byte) (start, end int, ok bool) {
	i := 1
	for i < len(tag) && !isSpace(tag[i]) && tag[i] != '/' && tag[i] != '>' { // the name
		i++
	}
	for i < len(tag) {
		for i < len(tag) && (isSpace(tag[i]) || tag[i] == '/') {
			i++
		}
		nameAt := i
		for i < len(tag) && !isSpace(tag[i]) && tag[i] != '=' && tag[i] != '>' && tag[i] != '/' {
			i++
		}
		name := tag[nameAt:i]
		for i < len(tag) && isSpace(tag[i]) {
			i++
		}
		if i >= len(tag) || tag[i] == '>' {
			return 0, 0, false
		}
		if tag[i] != '=' {
			if len(name) == 0 {
				i++
			}
			continue
		}
		i++
		for i < len(tag) && isSpace(tag[i]) {
			i++
		}
		start, end = i, i
		if i < len(tag) && (tag[i] == '"' || tag[i] == '\'') {
			closed := bytes.IndexByte(tag[i+1:], tag[i])
			if closed < 0 {
				return 0, 0, false
			}
			start, end = i+1, i+1+closed
			i = end + 1
		} else {
			for i < len(tag) && !isSpace(tag[i]) && tag[i] != '>' {
				i++
			}
			end = i
		}
		if strings.EqualFold(string(name), "href") {
			return start, end, true
		}
	}
	return 0, 0, false
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }
