"""Text in any script comes back from tokenising as it was, its marks with their letters."""

import random
import unicodedata

import pytest

from diverse_mha.corpora.letters import FORMS, join_marks, words_and_letters
from diverse_mha.corpora.text import make_detokeniser, make_tokeniser
from diverse_mha.evaluation.bleu import bleu_scores

SENTENCES = {
    "de": ["Zürich grüßt die Männer in der Straße.", "Über den Fluss fährt ein Boot, schön!"],
    "vi": ["Tiếng Việt có nhiều dấu thanh điệu."],
    "yo": ["Ẹ̀kọ́ ọ̀rọ̀ náà ṣe pàtàkì."],
    "uk": ["Її ім'я Мар'яна, їй п'ять років."],
    "hi": ["यह एक अच्छा दिन है। क्या आप ठीक हैं?", "क्‍या श्री॰ शर्मा यहाँ आए हैं?"],
    "bn": ["আমি বাংলায় গান গাই। তুমি কেমন আছো?"],
    "ar": ["مَرْحَبًا بِكَ فِي العَالَم، كَيْفَ حَالُكَ؟", "السعر ٣٫١٤ دولار؛ والعدد ١٢٬٣٤٥."],
    "fa": ["می\u200cخواهم به خانه بروم، آیا می\u200cآیی؟"],
    "ur": ["یہ ایک اچھا دن ہے۔ آپ کیسے ہیں؟"],
    "he": ["שָׁלוֹם עֲלֵיכֶם, מַה שְּׁלוֹמְךָ?", 'צה"ל ובית־ספר אצל ג׳ורג׳ הם כאן.'],
    "th": ["สวัสดีครับ วันนี้อากาศดีมาก นะ ครับ", 'เขาพูดว่า"ดี"ครับ ฯลฯ แล้ว ก็ ไป'],
    "lo": ["ສະບາຍດີ ທຸກຄົນ ຢູ່ ທີ່ນີ້"],
    "km": ["សួស្តី។ តើ អ្នក សុខ សប្បាយ ទេ?", "ខ្ញុំ\u200bចូលចិត្ត\u200bអាន\u200bសៀវភៅ។"],
    "my": ["မင်္ဂလာပါ။ နေကောင်းလား။ ကျွန်တော်၏ စာအုပ်၊ ခင်ဗျား၏ စာအုပ်။"],
    "bo": ["བོད་ཡིག་ནི་གལ་ཆེན་པོ་ཡིན། དེ་རིང་། ང་ ཡིན།"],
    "ko": ["안녕하세요, 오늘은 날씨가 아주 좋습니다."],
    "am": ["ሰላም ለዓለም። እንዴት ነህ፣ ወንድሜ?"],
    "hy": ["Բարեւ ձեզ։ Ինչպե՞ս եք դուք այսօր։"],
    "ta": ["தமிழ் ஒரு மிக அழகான மொழி."],
    "en": [
        "A family 👩‍👩‍👧 waves 👋🏽 at the flag 🇩🇪, presses 1️⃣ and smiles ☺️.",
        "A soft\u00adhyphen, a zero\u200bwidth space, \ufeffmark and re\u2060lax don't cut.",
    ],
    "ja": ["今日はコンピュータを使います。明日も、そうです。"],
    "zh": ["我来到北京，参观清华大学。你好吗？"],
}
# Letters with marks, and what ends a sentence, of some scripts.
SCRIPTS = {
    "latin": ("abcdez\u00df\u0300\u0301\u0308\u0323\u0328\u030c", ".!?"),
    "devanagari": ("\u0905-\u0939\u093c-\u094d\u200c\u200d", "\u0964?"),
    "bengali": ("\u0985-\u098c\u0995-\u09a8\u09bc\u09be-\u09c4\u09cd", "\u0964?"),
    "arabic": ("\u0620-\u063a\u0641-\u0652\u0670-\u06d3\u200c", "\u06d4\u061f."),
    "hebrew": ("\u05d0-\u05ea\u05b0-\u05bd\u05c1\u05c2", ".?\u05c3"),
    "thai": ("\u0e01-\u0e3a\u0e40-\u0e4e", "?"),
    "khmer": ("\u1780-\u17b3\u17b6-\u17d3\u200b", "\u17d4\u17d5"),
    "burmese": ("\u1000-\u102a\u102b-\u103e", "\u104b"),
    "hangul": ("\uac00-\ud7a3", ".?"),
    "jamo": ("\u1100-\u1112\u1161-\u1175\u11a8-\u11c2", "."),
}
LANGUAGE = {"latin": "yo", "arabic": "ur", "hangul": "ko", "jamo": "ko"}


def composed(text):
    return unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("language", SENTENCES)
def test_a_perfect_translation_scores_as_one(language):
    """The reference is as it was written, here decomposed."""
    raw = [unicodedata.normalize("NFD", line) for line in SENTENCES[language]]
    tokens = [*map(make_tokeniser(language), raw)]
    back = [*map(make_detokeniser(language), tokens)]
    assert back == [*map(composed, raw)]
    # sacreBLEU's own tokeniser of Japanese is not everywhere; any will do for equal text.
    target = {"ja": "zh", "ko": "en"}.get(language, language)
    assert bleu_scores(tokens, back, tokens, raw, target_lang=target)["sacrebleu"] > 99


def test_decomposed_words_are_the_composed_ones():
    tokenise = make_tokeniser("de")
    assert tokenise("Zu\u0308rich") == "Zürich" == tokenise("Zürich")
    for form in FORMS[:4]:
        made = make_tokeniser("de", normal_form=form)("Zürich ﬁx")
        assert made == unicodedata.normalize(form, "Zürich ﬁx")
    assert make_tokeniser("de", normal_form="none")("Zu\u0308rich") == "Zu\u0308rich"


@pytest.mark.parametrize("script", SCRIPTS)
def test_random_words_stay_whole_and_come_back(script):
    ranges, ends = SCRIPTS[script]
    letters = []
    for place, character in enumerate(ranges):
        if character == "-":
            letters += map(chr, range(ord(ranges[place - 1]), ord(ranges[place + 1])))
        else:
            letters.append(character)
    letters = [c for c in letters if unicodedata.category(c) not in ("Cn", "Po")]
    first = [c for c in letters if unicodedata.category(c)[0] == "L"]
    draw = random.Random(script)
    language = LANGUAGE.get(script, script[:2])
    tokenise, detokenise = make_tokeniser(language), make_detokeniser(language)
    for _ in range(300):
        words = [
            draw.choice(first) + "".join(draw.choices(letters, k=draw.randrange(6)))
            for _ in range(draw.randrange(1, 7))
        ]
        sentence = composed(" ".join(words) + draw.choice(ends))
        tokens = tokenise(sentence)
        assert len(tokens.split()) == len(words) + 1, (sentence, tokens)
        assert detokenise(tokens) == sentence


def test_published_text_is_cut_as_ever():
    """The corpora of the papers keep their bytes, whatever is in them."""
    tokenise = make_tokeniser("de", normal_form="none", whole_letters=False)
    assert (
        tokenise("Zu\u0308rich geht's so\u00adgar.")
        == "Zu \u0308 rich geht &apos; s so \u00ad gar ."
    )
    assert tokenise("Männer gehen.") == make_tokeniser("de")("Männer gehen.")


def test_without_a_tokeniser_text_is_as_it_was():
    raw = "  Er  sagt: „Ja“ & don't\t(今日)。 "
    tokenise = make_tokeniser("de", tokeniser="none", normalise=False)
    assert tokenise(raw) == "Er sagt: „Ja“ & don't (今日)。"
    assert make_detokeniser("de", "none")("Ja , & so") == "Ja , & so"
    assert make_tokeniser("zh", tokeniser="none")("我来到北京") == "我来到北京"


def test_marks_are_joined_to_what_jieba_cut_before_them():
    assert join_marks(["a", "\u0308", "👩", "\u200d", "👧", "b"]) == ["a\u0308", "👩\u200d👧", "b"]
    assert make_tokeniser("zh")("你好👩\u200d👧") == "你好 👩\u200d👧"


@pytest.mark.parametrize(
    "line, count",
    [
        ("two words", 2), ("今日は晴れ。", 5), ("สวัสดี", 4), ("iPhone 手机", 3), ("", 0),
        ("한국어 단어", 2), ("นี้", 1),
    ],
)  # fmt: skip
def test_letters_count_where_words_have_no_spaces(line, count):
    assert words_and_letters(line) == count
