package state

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// quoting are the words of a delivery, which look like no other word of the tests.
var quoting = strings.Fields("transfer seven thousand euros tomorrow morning before noon from Berlin")

// Six words of a delivery in a row are a quotation, however they are spelled,
// divided, ordered or filled up; five are none.
//
// covers BCP-83, P6.4
func TestQuotations(t *testing.T) {
	t.Parallel()
	q := quotations{}
	q.add(wordRuns(`{"q":"`+strings.Join(quoting, " ")+`","r":"Срочно переведите деньги на счёт получателя завтра","s":"請在明天之前轉帳七千歐元"}`), 0)
	for _, s := range []string{
		"transfer seven thousand euros tomorrow morning",
		"it says: Transfer SEVEN-thousand, euros! tomorrow... morning",
		"trаnsfer seven thousand euros tomorrow morning",                   // one Cyrillic letter
		"ᴛʀᴀɴꜱꜰᴇʀ seven thousand euros tomorrow morning",                   // small capitals
		"tránsfer sevén thousand euros tomorrow mórning",                   // accents
		"tr4nsfer s3ven thousand eur0s tomorrow morn1ng",                   // digits
		"ｔransfer se\u00adven thou\u200dsand euros tomorrow mor\u0336ning", // dressed up
		"transfer seven thousand well euros tomorrow morning",              // a filler word
		"transfer ah seven ah thousand ah euros ah tomorrow ah morning",    // one after each
		"morning tomorrow euros thousand seven transfer",                   // other order
		"tomorrow morning transfer euros seven thousand",                   // and another
		"transferseventhousandeurostomorrowmorning",                        // no spaces
		"transferseven thousandeuros tomorrowmorning",                      // fewer
		"tran sfers event hous and eurost omorr owmo rning",                // others
		"t r a n s f e r seven thousand euros tomorrow morning",            // letter by letter
		"срочно переведите деньги на счет получателя",                      // without the dots
		"завтра получателя счёт на деньги переведите",                      // other order
		"срочно переведите дeньги на счёт получателя",                      // one Latin letter
		"請在明天之前", "前之天明在請", "he wrote 請在明天之前轉帳",
	} {
		failIf(t, !q.quotesReleased(s, 0), "%q is no quotation", s)
	}
	for _, s := range []string{
		"", "transfer", "transfer seven thousand euros tomorrow", "transfer seven thousand euros and five words then follow tomorrow before the noon of the morning",
		"I cannot say which amount from one answer, and need a summary of the message", "請在明天之後", "transfer it seven times and a thousand more, in euros, some time tomorrow or on the next morning",
	} {
		failIf(t, q.quotesReleased(s, 0), "%q is a quotation", s)
	}
	failIf(t, q.quotesReleased(strings.Join(quoting, " "), -1), "a quotation of what is not released yet")
}

// Every disguise of the list, alone and together, of any six words in a row.
//
// covers BCP-83, P6.4
func TestDisguisedQuotations(t *testing.T) {
	t.Parallel()
	fillers := strings.Fields("so well then indeed please note that means also here")
	rapid.Check(t, func(t *rapid.T) {
		q := quotations{}
		q.add(wordRuns(strings.Join(quoting, " ")), 0)
		at := rapid.IntRange(0, len(quoting)-quotedWords).Draw(t, "at")
		words := slices.Clone(quoting[at : at+quotedWords])
		if rapid.Bool().Draw(t, "glued") {
			text := strings.Join(words, "")
			for range rapid.IntRange(0, 10).Draw(t, "cuts") {
				cut := rapid.IntRange(1, len(text)-1).Draw(t, "cut")
				text = text[:cut] + " " + text[cut:]
			}
			words = []string{text}
		} else {
			words = rapid.Permutation(words).Draw(t, "order")
			for range rapid.IntRange(0, quotedWithin-quotedWords).Draw(t, "fillers") {
				words = slices.Insert(words, rapid.IntRange(1, len(words)-1).Draw(t, "where"), rapid.SampledFrom(fillers).Draw(t, "filler"))
			}
		}
		text := strings.Join(words, " ")
		for _, change := range []*strings.Replacer{
			strings.NewReplacer("o", "о", "e", "е"), strings.NewReplacer("a", "ä", "e", "é"), strings.NewReplacer("o", "0", "e", "3"),
			strings.NewReplacer("s", "ꜱ", "n", "ɴ"), strings.NewReplacer("t", "t\u200d", "r", "r\u0301"), strings.NewReplacer(" ", ", "),
		} {
			if rapid.Bool().Draw(t, "change") {
				text = change.Replace(text)
			}
		}
		before := rapid.SampledFrom([]string{"", "the reader told me "}).Draw(t, "before")
		stopIf(t, !q.quotesReleased(before+text+" and that is why", 0), "%q is no quotation of %q", before+text, quoting)
	})
}

// What was said in other words is no quotation.
//
// covers P6.4
func TestOwnWordsAreNoQuotation(t *testing.T) {
	t.Parallel()
	common := strings.Fields("the of to and a in is it that for on with as was at by an be this are or from but not have which one had were all")
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string, n int) []string {
			return rapid.SliceOfN(rapid.SampledFrom(common), n, n).Draw(t, label)
		}
		delivered := append(text("delivered", 20), "alpha")
		// Each run of the delivery has a word that the justification has not.
		for i := 0; i < len(delivered); i += quotedWords {
			delivered[i] = "omega"
		}
		q := quotations{}
		q.add(wordRuns(strings.Join(delivered, " ")), 0)
		own := strings.Join(text("own", 50), " ")
		stopIf(t, q.quotesReleased(own, 0), "%q quotes %q", own, delivered)
	})
}

// A session that was told more than is kept may not quote at all.
//
// covers P6.4
func TestQuotationsAreBounded(t *testing.T) {
	t.Parallel()
	q := make(quotations, maxQuotations)
	for i := range uint32(maxQuotations - 1) {
		q[[8]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}] = 0
	}
	const short, long = "one two three four five", "this is my own analysis entirely"
	failIf(t, q.quotesReleased(long, 0), "an own justification quotes")
	q.add(wordRuns("alpha beta gamma delta epsilon zeta eta theta"), 0)
	expect(t, len(q), maxQuotations, "runs are kept")
	failIf(t, !q.quotesReleased(long, 0) || q.quotesReleased(short, 0),
		"full: %v %v", q.quotesReleased(long, 0), q.quotesReleased(short, 0))
}
