"""Sentences in many writing systems, with characters that preparation easily loses.

These are combining marks, joiners and soft hyphens. Moses' tokeniser splits words in most of these
sentences.
"""

import unicodedata

SENTENCES = {
    "Latin, decomposed": (
        unicodedata.normalize("NFD", "Die Männer überqueren „heute“ die Straße, z. B. in Zürich."),
        unicodedata.normalize("NFD", "Việt Nam có nhiều người; Ọ̀rúnmìlà kò sí níbẹ̀."),
    ),
    "Devanagari": ("उसने कहा, क्‍या यह सच है? नहीं। ॥१॥", "शक्‍ति और र्‍य का चिह्न।"),
    "Bengali": ("আমি বাংলায় গান গাই। র‍্যাব এসেছে, তাই না?",),
    "Arabic": ("مرحبًا بكَ في العالَم، كيف حالُك؟ نعم؛ ١٬٢٣٤٫٥", "قال «نعم» ثُمَّ ذهب."),
    "Persian": ("نمی‌خواهم به خانه‌ها بروم؛ می‌روم.", "کتاب‌های او کجاست؟"),
    "Hebrew, pointed": ("בְּרֵאשִׁית בָּרָא אֱלֹהִים.", 'דובר צה"ל ובן־גוריון.'),
    "Thai": ("วันนี้อากาศดีมาก ผมไปตลาดกับเพื่อนๆ ที่กรุงเทพฯ",),
    "Khmer": ("ខ្ញុំ\u200bស្រឡាញ់\u200bប្រទេស\u200bកម្ពុជា។ តើអ្នកសុខសប្បាយទេ?",),
    "Burmese": ("မင်္ဂလာပါ၊ နေကောင်းလား။ ကျွန်တော် ဈေးသွားမယ်။",),
    "Korean": (
        "안녕하세요, 오늘은 날씨가 정말 좋네요!",
        unicodedata.normalize("NFD", "학교에 갑니다."),
    ),
    "Japanese": ("「今日は」と彼は言った。東京へ行きますか？ガギグ・ゲーム",),
    "Chinese": ("他说：“今天天气很好，我们去北京吧！”（2017年）",),
    "emoji": ("Two people 👩‍💻👨‍👩‍👧 wave 👋🏽, he ❤️ flags 🇩🇪🏴‍☠️!",),
    "reserved by sentencepiece": ("Preis ▁ 20, unter▁strich ▁▁ und ▅ zu▅letzt ▁", "▁ ▅▁ Ende"),
    "soft hyphen": ("Donau\u00addampf\u00adschiff fährt los, & so <weiter> | [a] 'b' \"c\".",),
}
