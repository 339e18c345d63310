package facts

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The word lists of the honest Reader. Entries are lower case; an entry matches
// at the start of a word, so that "invoice" finds "invoices".
var (
	kindWords = map[Kind][]string{
		Billing: {"invoice", "amount due", "payment", "balance due", "overdue", "vat", "quote", "price", "rates",
			"credit", "expense", "statement", "refund", "rechnung", "facture", "請求書", "お支払", "合計"},
		Support: {"order", "ship", "delivery", "delivered", "deliver", "tracking", "replacement", "return", "broken",
			"ticket", "support", "parcel", "reklamation", "lieferung", "beschädigt", "problème", "livré",
			"доставк", "注文", "納期", "stock", "count", "do you have"},
		Meeting: {"meeting", "invitation", "invited", "call", "appointment", "agenda", "attend", "survey",
			"встреч", "termin", "会議"},
		Personal: {"birthday", "family", "dinner", "love,", "holiday", "congratulations on"},
	}
	spamWords = []string{"winner", "lottery", "prize", "claim your", "act now", "risk free", "bank details",
		"processing fee", "100% free"}
	urgentWords = []string{"urgent", "asap", "as soon as possible", "immediately", "final notice", "within 24 hours",
		"dringend", "срочно", "至急"}
	positiveWords = []string{"thank you for the", "wonderful", "perfect", "great help", "good news", "happy", "love,",
		"glad", "looking forward", "kindness", "довольн", "благодар", "спасибо"}
	negativeWords = []string{"broken", "damaged", "disappointed", "wet", "overdue", "not been paid", "collection",
		"missing", "undelivered", "could not be delivered", "too small", "sorry", "enttäuscht", "beschädigt",
		"problème", "ne fonctionne pas"}
	askWords = []string{"please", "could you", "can you", "would you", "let us know", "if you confirm", "bitte", "пожалуйста",
		"pourriez-vous", "教えてください"}
	closingWords = []string{"ignore my previous", "nothing to do", "do not need to do", "no reply needed",
		"for your information"}
	// noticeWords begin sentences that look like a request and ask for nothing.
	noticeWords = []string{"please find attached", "please find enclosed", "please note"}
	greetings   = []string{"dear", "hello", "hi", "good morning", "good afternoon", "sehr geehrte", "bonjour",
		"здравствуйте", "добрый день", "タイドウォーター様", "お世話になって", "kind regards", "regards", "thanks", "merci",
		"с уважением", "よろしくお願い", "mit freundlichen"}
	substanceWords = []string{"order", "invoice", "due", "meeting", "delivery", "available", "offer", "ready",
		"could", "does", "need", "want", "would like", "arrive", "attached", "received", "when", "costs", "applies",
		"takes place", "office until", "count", "bitte", "dringend", "納期", "合計", "встреч", "доставк",
		"scanned", "finished", "approve", "birthday", "owe", "start on", "crane", "move"}
)

// hasAny reports whether one of the entries begins a word of s.
func hasAny(s string, list []string) bool { return countAny(s, list) > 0 }

// countAny counts the entries that begin a word of s, each once.
func countAny(s string, list []string) int {
	n := 0
	for _, entry := range list {
		if beginsWord(s, entry) {
			n++
		}
	}
	return n
}

// beginsWord finds entry where no letter stands before it; scripts that write
// without spaces match anywhere.
func beginsWord(s, entry string) bool {
	first, _ := utf8.DecodeRuneInString(entry)
	anywhere := unicode.In(first, unicode.Han, unicode.Hiragana, unicode.Katakana)
	for from := 0; ; {
		i := strings.Index(s[from:], entry)
		if i < 0 {
			return false
		}
		at := from + i
		before, _ := utf8.DecodeLastRuneInString(s[:at])
		if anywhere || at == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return true
		}
		from = at + len(entry)
	}
}

func startsWithAny(s string, list []string) bool {
	for _, entry := range list {
		if rest, ok := strings.CutPrefix(s, entry); ok {
			next, _ := utf8.DecodeRuneInString(rest)
			if rest == "" || !unicode.IsLetter(next) || next > 0x2e80 {
				return true
			}
		}
	}
	return false
}
