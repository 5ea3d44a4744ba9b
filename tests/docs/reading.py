"""Reads the prose, tables and pictures of a page, for tests of how they are written."""

import re

#: Words that show that a sentence has a finite verb: auxiliaries, and verbs of the pages in the
#: third person. Words that are mostly nouns on the pages (scores, runs, samples) are left out.
_ALWAYS = """
is are was were am isn't aren't has have had hasn't does do did doesn't don't can cannot could may
might must need needs should will would shall accepts acts adds agrees aligns allows applies
argues asks assumes attends avoids becomes begins behaves belongs builds caches carries cares
changes chooses combines comes compares computes consists contains converts copies costs counts
covers cuts decides deletes depends derives describes differs divides downloads draws drops
emulates ends estimates exists exits expects explains fails falls fills finds fits flattens
follows gets gives goes guesses happens helps holds ignores imports improves includes installs
joins keeps knows learns leaves lets lies loads looks loses makes means measures mentions moves
multiplies names normalises offers opens ought passes performs prepares prints produces proves
pulls puts raises reaches reads refuses registers removes repeats replaces reports resolves
restores resumes returns rises runs says sees sends serves sets shows sits skips sorts speaks
speeds splits stands starts states stays stops submits suits takes tells tests trains translates
treats tries turns understands uses varies waits wants warns wins works writes zeroes agree apply
become begin belong choose come compare consist contain contribute depend describe differ disagree
drop exist fail fall find fit follow gave get give go got happen keep know learn let lack lead lie
look lose lost made make meet move pay prepare print prove pull put raise reach read refuse remain
replace return rise run said saw say see seem send show stay stop suit take tell took train tune
try use vary want went work write wrote avoid came cause divide harms include reject share spin
survive switches weigh failed harm leave
""".split()
#: Words that are verbs at the beginning of a sentence, where they tell the reader what to do.
_IMPERATIVES = """
add arrange ask average beware call cancel change check cite clone close compile copy correct
count create cut declare define delete divide do download expect export halve handle import
install join leave limit list load log look lower mark measure mind name note open pack pass pick
point prefer register remove rename repeat report resume save score select set share sort split
start state switch test unpack wait watch
""".split()
_FINITE, _FIRST = set(_ALWAYS), set(_IMPERATIVES)
#: Words before an imperative: "Then open the page".
_OPENERS = re.compile(r"^(?:(?:then|so|now|or|and|but|please|also|first|next|likewise)\b,?\s*)+")
_PREPOSITIONS = {"At", "For", "From", "In", "On", "Outside", "To", "With", "Without"}
#: A word in -s before one of these is a verb: "the term harms a model".
_VERB = re.compile(
    r"\w [a-z]+s (?:a|all|an|any|each|every|it|its|no|one|over|some|text|that|the|their|them|these|"
    r"this|those|two|three)\b"
)
_CODE = re.compile(r"`[^`]*`")
#: Beginnings that point to something outside the sentence; (?=VERB) is a finite verb.
_DANGLING = [
    r"The (?:first|second|third|last|other|others|latter|former|rest) (?=VERB)",
    r"The (?:latter|former|others)\b",
    r"The (?:first|second|third|last|other),? (?:of|in|by|at|for|with|without)\b",
    r"(?:Both|Neither|Those|Others|Ours|Theirs|Each) (?=VERB)",
    r"Those (?:of|with|without|in|by|at|for)\b",
    r"Elsewhere\b",
    r"(?:The same|Likewise|As above|So here)\b",
]
#: The same, as the first words of a paragraph, list item or table cell.
_DANGLING_FIRST = [
    r"(?:It|They)\b",
    r"(?:This|That|These) (?=VERB)",
]
_PICTURE = r"<img.*?>|!\[[^\]]*\]\([^)]*\)"


def paragraphs(text: str) -> list[str]:
    """Return paragraphs and list items, without code, tables, headings, pictures and comments."""
    text = re.sub(rf"^ *```.*?^ *```$|<!--.*?-->|{_PICTURE}", "\n", text, flags=re.M | re.S)
    text = re.sub(r"^(\||#| {4}).*$", "\n", text, flags=re.M)
    text = re.sub(r"^ *([-*]|\d+\.) ", "\n", text, flags=re.M)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a page: rows of cells, the header first."""
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)
    blocks = re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.M)
    rows = [block.splitlines() for block in blocks]
    return [
        [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in table]
        for table in rows
    ]


def unintroduced(text: str) -> list[str]:
    """Return the headers of tables that no prose precedes, except below "What can go wrong"."""
    text = re.sub(r"^ *```.*?^ *```$", "```", text, flags=re.M | re.S)
    lines = [line for line in text.splitlines() if line and not line.startswith("<!--")]
    return [
        line
        for before, line in zip(["#", *lines], lines, strict=False)
        if line.startswith("|")
        and before.startswith(("#", "```"))
        and before != "## What can go wrong"
    ]


def uncaptioned(text: str) -> list[str]:
    """Return the pictures that no line in italics of at least ten words follows."""
    found = []
    for picture in re.finditer(_PICTURE, text, re.S):
        caption = re.match(r"\s*\*([^*]+)\*\s", text[picture.end() :] + "\n")
        if caption is None or len(caption[1].split()) < 10:
            found.append(picture[0])
    return found


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences, without its bold run-in heading of one or two words."""
    plain = re.sub(r"^\*\*(?:\S+ ?){1,2}[.:]\*\*", "", paragraph)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain).replace("**", "").strip()
    plain = re.sub(r"\b(et al|e\.g|i\.e|Eq|Fig|Figs|vs)\.", r"\1", plain)
    return [part for part in re.split(r"(?<=[.?!])\s+(?=[A-Z`(*\"])", plain) if part]


def is_fragment(sentence: str) -> bool:
    """Return True if no word of a sentence is known as a finite verb or an imperative."""
    plain = _CODE.sub("CODE", sentence)
    words = re.findall(r"[A-Za-z]+(?:'t)?", re.sub(r"\b[Tt]o [a-z]+", "", plain))
    if _FINITE.intersection(word.lower() for word in words) or _VERB.search(plain):
        return False
    if _FIRST.intersection(words) and words[0] in _PREPOSITIONS:  # For another Python set a path.
        return False
    clauses = re.split(r"[,;:(] ?", re.sub(r"[*_]", "", plain.lower()))
    starts = (re.match(r"\W*(\w+)", _OPENERS.sub("", clause.strip())) for clause in clauses)
    return not any(start and start[1] in _FIRST for start in starts)


def dangling(paragraph: str) -> list[str]:
    """Return the sentences that begin with a reference to another sentence, without its noun."""
    verb = rf"(?:\w+ly |also |not )?(?:{'|'.join(_ALWAYS)})\b"
    found = []
    for number, sentence in enumerate(sentences(paragraph)):
        patterns = _DANGLING if number else _DANGLING + _DANGLING_FIRST
        if any(re.match(pattern.replace("VERB", verb), sentence) for pattern in patterns):
            found.append(sentence)
    return found


def own_words(glossary: str) -> list[str]:
    """Return the words of the glossary that have a meaning special to this project."""
    return [head.lower() for head in re.findall(r"^## (.+)\n\n\*Here:\*", glossary, re.M)]


def unexplained(text: str, words: list[str]) -> list[str]:
    """Return the words that a page does not explain where its prose or tables first use them.

    A word is explained by a link on it, or where the page says in its own words what it is: "a term
    in the loss", "a recipe is ...", "components (encoder, ...)".
    """
    prose = re.sub(r"^```.*?^```$|^#[^\n]*$|<!--.*?-->", "", text, flags=re.M | re.S)
    prose = re.sub(r"\s+", " ", prose)
    found = []
    for word in words:
        used = rf"(?<![\w`/.#=-])\**{re.escape(word)}s?\**(?![\w`/.=-]\w)"
        says = r" \(| (?:is|are) |: |, (?:which|that|a|the) | (?:in|of|to|added to) the loss"
        explained = rf"\[[^]]*{used}[^]]*\]\(|{used}(?:{says})|\bloss {word}"
        first, says_what = (re.search(pattern, prose, re.I) for pattern in (used, explained))
        if first and not (says_what and says_what.start() <= first.start()):
            found.append(word)
    return found
