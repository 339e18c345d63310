package fetch

import (
	"bytes"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

const (
	maxLinks      = 2000    // of a page
	maxLinkSource = 4 << 20 // bytes in which links are looked for: as many as are parsed
)

// findLinks returns the links of the body by the value of their attribute, verbatim and
// unescaped.
func findLinks(body Body) map[string]Link {
	links, first := map[string]Link{}, map[string]Link{} // by the attribute, and by the URL
	base := body.base()
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
						if target, err := resolveLink(base, raw[start:end]); err == nil {
							link := Link{URL: target.String(), Start: offset + start, End: offset + end}
							if earlier, known := first[link.URL]; known {
								link = earlier
							}
							links[value], first[link.URL] = link, link
						}
					}
				}
			}
		}
		offset += len(raw)
	}
	return links
}

// attribute is one in the bytes of a tag: its name, and its value between quotes or without.
var attribute = regexp.MustCompile(`([^\s/>=]+)\s*(?:=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)|()>))?`)

// findHref returns the position of the value of the first href in the bytes of a tag.
func findHref(tag []byte) (start, end int, ok bool) {
	for _, at := range attribute.FindAllSubmatchIndex(tag, -1) {
		for value := 4; value < len(at) && strings.EqualFold(string(tag[at[2]:at[3]]), "href"); value += 2 {
			if at[value] >= 0 {
				return at[value], at[value+1], true
			}
		}
	}
	return 0, 0, false
}
