package text

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

var sentences = map[string]string{
	"English":          "The committee's naïve report, published on 3 March, cost £1,250 — “more than expected”…",
	"German":           "Die Straßenbahn fährt größtenteils pünktlich, außer wenn es draußen heiß ist.",
	"French":           "L'élève a reçu une lettre où l'on évoque le cœur de Noël, ça et là.",
	"Spanish":          "¿Dónde está el niño? El pingüino comió mañana según dijo mamá.",
	"Portuguese":       "As ações da organização não são tão fáceis, porém há soluções.",
	"Italian":          "Perché la città è più bella così? Ciò dipende dalla qualità.",
	"Dutch":            "De coëfficiënt van de geïnteresseerde zoölogen bleef één.",
	"Polish":           "Zażółć gęślą jaźń, powiedział król, i poszedł do źródła.",
	"Czech":            "Příliš žluťoučký kůň úpěl ďábelské ódy v měsíčním světle.",
	"Hungarian":        "Árvíztűrő tükörfúrógép működött a gyűjtőútnál éjjel.",
	"Romanian":         "Țara și oamenii săi au încercat să găsească o soluție în grădină.",
	"Turkish":          "İstanbul'da ışıklı gecelerde İzmirli öğrenciler şarkı söylüyor, çünkü IĞDIR uzak.",
	"Vietnamese":       "Tiếng Việt có nhiều dấu: những người Việt Nam yêu quý đất nước của mình.",
	"Icelandic":        "Sæti þjóðin á eyjunni ræðir um veðrið og öldurnar í höfninni.",
	"Russian":          "Ёжик и йод лежат на столе; объём выручки вырос на 12,5 %.",
	"Ukrainian":        "Їжак з'їв ґанок, а Європа щиро подякувала йому.",
	"Greek":            "Η γρήγορη αλεπού πηδάει πάνω από το τεμπέλικο σκυλί, μαΐστρος και ΰδωρ.",
	"Polytonic Greek":  "Μῆνιν ἄειδε θεὰ Πηληϊάδεω Ἀχιλῆος οὐλομένην, ἣ μυρί' Ἀχαιοῖς ἄλγε' ἔθηκε, τῷ λόγῳ τῆς ψυχῆς ἐν ᾗ ᾄδει.",
	"Armenian":         "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ։",
	"Georgian":         "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებით.",
	"Hebrew, pointed":  "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ׃",
	"Arabic, pointed":  "بِسْمِ اللَّهِ الرَّحْمَٰنِ الرَّحِيمِ ، الحَمْدُ لِلَّهِ رَبِّ العَالَمِينَ",
	"Persian":          "همهٔ افراد بشر آزاد به دنیا می\u200cآیند و از نظر حیثیت برابرند.",
	"Urdu":             "تمام انسان آزاد اور حقوق و عزت کے اعتبار سے برابر پیدا ہوئے ہیں۔",
	"Hindi":            "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है, ज़रूर बड़ा फ़ैसला।",
	"Bengali":          "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে, কোনো বড় বিষয়।",
	"Punjabi":          "ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ, ਸ਼ਾਨ ਅਤੇ ਹੱਕਾਂ ਦੇ ਪੱਖੋਂ ਜਨਮ ਤੋਂ ਹੀ ਆਜ਼ਾਦ ਹੈ।",
	"Tamil":            "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர், கொடுத்து போகலாம்.",
	"Telugu":           "ప్రతిపత్తి స్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులు.",
	"Kannada":          "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ, ಕೋರಿಕೆ ಮೇಲೆ.",
	"Malayalam":        "മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും സ്വാതന്ത്ര്യത്തോടും ജനിച്ചവരാണ്.",
	"Sinhala":          "සියලු මනුෂ්\u200dයයෝ නිදහස්ව උපත ලබා ඇත, කෝපය නොවේ.",
	"Thai":             "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
	"Lao":              "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ ສິດທິ ເສລີພາບ ແລະຄວາມສະເໝີພາບເທົ່າທຽມກັນ",
	"Burmese":          "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများ ဖြစ်သည်၊ ခွင့်ပြု။",
	"Khmer":            "មនុស្សទាំងអស់កើតមកមានសេរីភាព និងសមភាពក្នុងសេចក្ដីថ្លៃថ្នូរ",
	"Tibetan":          "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོང་དང་།",
	"Amharic":          "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው።",
	"Korean":           "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
	"Japanese":         "すべての人間は、生まれながらにして自由であり、ガラパゴスのパン、ヴィーナス。",
	"Chinese":          "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心！",
	"Yoruba":           "Gbogbo ènìyàn ni a bí ní òmìnira; iyì àti ẹ̀tọ́ kọ̀ọ̀kan sì dọ́gba.",
	"Navajo":           "Bilaʼashdlaʼii tʼáá ałtsoh yiníkʼehgo bidizhchį́, dóó aheełtʼeego.",
	"Keycaps and more": "1️⃣ first 2️⃣ second 3️⃣ third ½ of ™ № 5 km² at 20 ℃",
}

// Nothing in the ordinary spelling of a language meets a limit that is there against hostile texts, whole or as
// received in decomposed form.
//
// covers P3.4, BCP-97
func TestLanguages(t *testing.T) {
	t.Parallel()
	for language, s := range sentences {
		s = norm.NFC.String(s) + "\n"
		long := strings.Repeat(s, 1+600/len(s))
		for _, o := range []Options{roomy(Any, None), roomy(Any, Summary), {Alphabet: Any, MaxWords: 10_000, PreserveCase: true}} {
			r, err := Normalise(nil, []byte(long), o)
			if err != nil {
				t.Errorf("%s: %v", language, err)
				continue
			}
			decomposed, err := Normalise(nil, []byte(norm.NFD.String(long)), o)
			failIf(t, err != nil || string(decomposed.Text) != string(r.Text), "%s decomposed: %v", language, err)
			low := refNormal(long)
			failIf(t, o.Join == None && !o.PreserveCase && string(r.Text) != low, "%s: %q, reference %q", language, r.Text, low)
			if o.Join == None {
				checkFixpoint(t, long, o)
			}
		}
	}
}

// A letter keeps its capital in every compatible spelling, and none gets one that has none.
//
// covers P3.4, BCP-97
func TestCapitalsOfEveryCodePoint(t *testing.T) {
	t.Parallel()
	o := Options{Alphabet: Any, MaxWords: 100, PreserveCase: true}
	for r := rune(0x80); r <= 0x10ffff; r++ {
		if !assigned(r) || refInvisible(r) || r == 0xb4 || r == 0x1ffd {
			continue
		}
		for _, behind := range []string{"", "x", "\u0301"} {
			s := string(r) + behind
			got, err := Normalise(nil, []byte(s), o)
			want, wantErr := Normalise(nil, []byte(norm.NFKC.String(s)), o)
			stopIf(t, (err == nil) != (wantErr == nil) || string(got.Text) != string(want.Text) || got.Capitals != want.Capitals,
				"%+q: %+q (%v), in NFKC %+q (%v)", s, got.Text, err, want.Text, wantErr)
		}
	}
}
