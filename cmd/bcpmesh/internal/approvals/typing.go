package approvals

import (
	"strings"

	"charm.land/bubbles/v2/textarea"
	"charm.land/bubbletea/v2"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
)

// startTyping opens the field for a reason or an edit.
func (m *watchModel) startTyping(text string) tea.Cmd {
	m.area = textarea.New()
	m.area.ShowLineNumbers = false
	m.area.Prompt = "> "
	m.area.CharLimit = 0
	m.area.MaxHeight = 0
	m.area.KeyMap.Paste.SetEnabled(false) // it would run programs; a terminal pastes by itself
	if !m.colours {
		m.area.SetStyles(textarea.Styles{})
	}
	m.resizeArea()
	m.area.SetValue(text)
	m.area.MoveToBegin()
	return m.area.Focus()
}

func (m *watchModel) resizeArea() {
	if m.mode != modeReason && m.mode != modeEdit && m.mode != modePreview {
		return
	}
	m.area.SetWidth(max(m.width, leastScreenWidth))
	height := m.paneHeight()
	if m.mode == modeReason {
		height = reasonHeight
	}
	m.area.SetHeight(max(1, height))
}

func (m *watchModel) typingKey(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	switch {
	case name == "esc":
		m.mode = modeBrowse
		m.setNotice(false, "nothing was decided")
		return nil
	case m.busy:
		return nil
	case m.mode == modeReason && name == "enter":
		reason := strings.TrimSpace(m.area.Value())
		if wrong := CheckReason(reason); wrong != nil {
			m.setNotice(true, wrong.Message)
			return nil
		}
		m.mode = modeBrowse
		return m.decide(bcp.RejectItem, reason)
	case m.mode == modeEdit && name == "ctrl+s":
		response, err := edited(m.area.Value(), m.isText)
		if err != nil {
			m.setNotice(true, err.Error())
			return nil
		}
		m.busy = true
		m.setNotice(false, "loading the preview")
		view := *m.view
		return func() tea.Msg {
			preview, err := m.desk.Preview(m.ctx, view, response)
			return previewMsg{view.ID, preview, err}
		}
	}
	return m.typed(key)
}

// typed hands a key or a paste to the field. What is pasted may be hostile: it
// is shown as marks, like all that does not show.
func (m *watchModel) typed(msg tea.Msg) tea.Cmd {
	var cmd tea.Cmd
	m.area, cmd = m.area.Update(msg)
	hides := func(r rune) bool {
		return r != '\n' && !inert.Harmless(r)
	}
	if value := m.area.Value(); strings.IndexFunc(value, hides) >= 0 {
		var b strings.Builder
		for _, r := range value {
			if hides(r) {
				b.WriteString(inert.Mark(r))
			} else {
				b.WriteRune(r)
			}
		}
		m.area.SetValue(b.String())
	}
	return cmd
}
