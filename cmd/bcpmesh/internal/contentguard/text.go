package contentguard

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxCaseText bounds a text of a case after its repetitions are written out.
const maxCaseText = 64 << 20

var errCaseText = errors.New("a text is a string or a list of parts")

// caseText is a text of a case: a string, or a list whose parts are joined. A part is a string or {"repeat", "times"}.
type caseText string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (t *caseText) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var b strings.Builder
	if err := readCaseText(d, &b); err != nil {
		return err
	}
	*t = caseText(b.String())
	return nil
}

func readCaseText(d *jsontext.Decoder, b *strings.Builder) error {
	switch d.PeekKind() {
	case '"':
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		return addText(b, token.String(), 1)
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		for d.PeekKind() != ']' {
			if err := readCaseText(d, b); err != nil {
				return err
			}
		}
		_, err := d.ReadToken()
		return err
	case '{':
		var part struct {
			Repeat caseText `json:"repeat"`
			Times  int      `json:"times"`
		}
		if err := json.UnmarshalDecode(d, &part); err != nil {
			return err
		}
		return addText(b, string(part.Repeat), part.Times)
	}
	return errCaseText
}

func addText(b *strings.Builder, text string, times int) error {
	if times < 0 || len(text) > 0 && times > (maxCaseText-b.Len())/len(text) {
		return errCaseText
	}
	b.WriteString(strings.Repeat(text, times))
	return nil
}

// caseURL is a URL of a case. One that is no Unicode stays so, and is refused like any other that is malformed.
type caseURL string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (u *caseURL) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	var text caseText
	if err := json.Unmarshal(raw, &text, caseOptions); err != nil {
		return err
	}
	*u = caseURL(text)
	if !raw.IsValid() {
		*u += "\xff"
	}
	return nil
}
