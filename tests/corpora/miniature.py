"""Miniatures of the published archives, with the same files but few, invented sentences.

Paths in archives are typed independently of the corpora's specs, so a wrong path in a spec is
detected. A sentence and its translation carry the same number; :func:`numbers` reads it.
"""

import gzip
import io
import random
import re
import tarfile
import zipfile
from pathlib import Path

TRAIN = 60  # sentences of each training file
HELD = 4  # sentences of each file of a validation or test set

WORDS = {
    "de": "das Haus ist klein und die Katze schläft heute nicht im Garten".split(),
    "en": "the house is small and the cat sleeps not today in a garden".split(),
    "ru": "дом маленький и кошка сегодня не спит в саду под деревом".split(),
    "zh": ["房子", "很小", "今天", "猫", "不", "在", "花园", "里", "睡觉", "大会", "决议"],
}


def sentence(language, number):
    """Return a sentence that ends in ``number``; equal arguments give equal sentences."""
    chance = random.Random(f"{language} {number}")
    words = chance.choices(WORDS[language], k=chance.randint(4, 7))
    if language == "zh":
        return "".join(words) + f"第{number}号。"
    return " ".join(words).capitalize() + f" {number}."


def numbers(path):
    """Return the number of each sentence in a file. The file may be split into subwords."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [int("".join(re.findall(r"\d", line))) for line in lines]


def text(language, start, count):
    """Return plain text of ``count`` sentences, numbered from ``start``."""
    return "".join(f"{sentence(language, start + n)}\n" for n in range(count))


def sgm(language, start, count):
    """Return a test set in WMT's format, with an entity and an irregular line break."""
    segments = [f'<seg id="{n + 1}">{sentence(language, start + n)}</seg>' for n in range(count)]
    segments[-1] = segments[-1].replace('">', '">Q&amp;A \n', 1)
    body = "\n".join(segments)
    return (
        f'<srcset setid="s" srclang="any">\n<doc docid="a">\n<p>\n{body}\n</p>\n</doc>\n</srcset>'
    )


def ted_xml(language, start, count):
    """Return a test set in IWSLT's XML format."""
    segments = "".join(
        f'<seg id="{n + 1}"> {sentence(language, start + n)} </seg>\n' for n in range(count)
    )
    head = "<url>http://www.ted.com/1</url>\n<title>Titel</title>\n"
    return f'<?xml version="1.0"?>\n<mteval>\n<doc docid="1">\n{head}{segments}</doc>\n</mteval>\n'


def ted_train(language, start, count):
    """Return a training file in IWSLT's format: two talks with their tags."""
    half = count // 2
    talks = []
    for talk, (first, size) in enumerate([(start, half), (start + half, count - half)]):
        title = f"<title>{sentence(language, 7000 + talk)}</title>\n"
        description = f"<description>{sentence(language, 8000 + talk)}</description>\n"
        talks.append(
            f"<url>http://www.ted.com/{talk}</url>\n<keywords>talks, house</keywords>\n"
            f"<speaker>Some One</speaker>\n<talkid>{talk}</talkid>\n{title}{description}"
            f"{text(language, first, size)}"
        )
    return "".join(talks)


def both(stems, languages, make, count, end=""):
    """Return two parallel files of an archive for each stem.

    A file's path is mapped to the function that makes it, its language, its number of sentences
    and its stem. ``end``: suffix after the language.
    """
    return {
        f"{stem}.{language}{end}": (make, language, count, stem)
        for stem in ([stems] if isinstance(stems, str) else stems)
        for language in languages
    }


def cwmt(name, stems, chinese):
    """Return the files of an archive of CWMT. ``chinese``: suffix of its Chinese files."""
    files = {}
    for stem in stems:
        files[f"{name}/{stem}_{chinese}.txt"] = (text, "zh", TRAIN, f"{name}/{stem}")
        files[f"{name}/{stem}_en.txt"] = (text, "en", TRAIN, f"{name}/{stem}")
    return files


def dev_set(name, source, target):
    """Return a test set of WMT with source and reference."""
    return {
        f"dev/{name}-src.{source}.sgm": (sgm, source, HELD, name),
        f"dev/{name}-ref.{target}.sgm": (sgm, target, HELD, name),
    }


DE_EN = ("de", "en")
EUROPARL = {
    "training-parallel-europarl-v7.tgz": both("training/europarl-v7.de-en", DE_EN, text, TRAIN)
    | both("training/europarl-v7.fr-en", ("en",), text, TRAIN)
}
COMMON_CRAWL = {"training-parallel-commoncrawl.tgz": both("commoncrawl.de-en", DE_EN, text, TRAIN)}
PLAIN_SETS = (
    "newssyscomb2009",
    "news-test2008",
    *(f"newstest{year}" for year in range(2009, 2014)),
)
DEV = {
    "dev.tgz": dev_set("newstest2014-deen", "de", "en")
    | dev_set("newstest2017-deen", "de", "en")
    | dev_set("newsdev2017-zhen", "zh", "en")
    | dev_set("newstest2017-zhen", "zh", "en")
    | both([f"dev/{stem}" for stem in PLAIN_SETS], DE_EN, text, HELD)
}
NC_12 = {
    "training-parallel-nc-v12.tgz": both("training/news-commentary-v12.de-en", DE_EN, text, TRAIN)
    | both("training/news-commentary-v12.zh-en", ("zh", "en"), text, TRAIN)
}
UN_ZH = {"UNv1.0.en-zh.tar.gz": both("en-zh/UNv1.0.en-zh", ("zh", "en"), text, TRAIN)}
UN_SETS = {
    "UNv1.0.testsets.tar.gz": both(
        "testsets/devset/UNv1.0.devset", ("en", "ru", "zh"), text, HELD
    )
    | both("testsets/testset/UNv1.0.testset", ("en", "ru", "zh"), text, HELD)
}  # fmt: skip


def iwslt(year, *sets):
    """Return the German-English archive of a year of IWSLT."""
    stems = [f"de-en/IWSLT{year}.{stem}.de-en" for stem in sets]
    files = both("de-en/train.tags.de-en", DE_EN, ted_train, TRAIN)
    return {"de-en.tgz": files | both(stems, DE_EN, ted_xml, HELD, ".xml")}


GOOGLE_ENDS = ("", ".tok", ".tok.bpe.32000")
GOOGLE = {
    "wmt16_en_de.tar.gz": both("train.tok.clean.bpe.32000", DE_EN, text, TRAIN)
    | both([f"newstest{y}{end}" for y in (2013, 2014) for end in GOOGLE_ENDS], DE_EN, text, HELD)
    | {"bpe.32000": (text, "en", 3, "codes")}
}

ARCHIVES = {
    "iwslt14": iwslt(
        14, "TED.dev2010", "TED.tst2010", "TED.tst2011", "TED.tst2012", "TEDX.dev2012"
    ),
    "iwslt17": iwslt(17, "TED.dev2010", *(f"TED.tst201{n}" for n in range(6))),
    "wmt14-en-de": EUROPARL
    | COMMON_CRAWL
    | DEV
    | {
        "training-parallel-nc-v9.tgz": both(
            "training/news-commentary-v9.de-en", DE_EN, text, TRAIN
        )
    },
    "wmt14-en-de-google": GOOGLE,
    "wmt17-de-en": EUROPARL
    | COMMON_CRAWL
    | NC_12
    | DEV
    | {"rapid2016.tgz": both("rapid2016.de-en", DE_EN, text, TRAIN)},
    "wmt17-zh-en": NC_12
    | UN_ZH
    | DEV
    | {
        "casia2015.zip": cwmt("casia2015", ["casia2015"], "ch"),
        "casict2011.zip": cwmt("casict2011", ["casict-A", "casict-B"], "ch"),
        "casict2015.zip": cwmt("casict2015", ["casict2015"], "ch"),
        "datum2015.zip": cwmt("datum2015", ["datum"], "ch"),
        "datum2017.zip": cwmt("datum2017", [f"Book{n}" for n in range(1, 21)], "cn"),
        "neu2017.zip": cwmt("neu2017", ["NEU"], "cn"),
    },
    "un-ru-en": {"UNv1.0.en-ru.tar.gz": both("en-ru/UNv1.0.en-ru", ("ru", "en"), text, TRAIN)}
    | UN_SETS,
    "un-zh-en": UN_ZH | UN_SETS,
    "tatoeba": {"de-en.txt.zip": both("Tatoeba.de-en", DE_EN, text, TRAIN)},
}  # fmt: skip


def write_archive(path, files):
    """Write a tar or zip archive; ``files`` has the content or tar header of each name."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return
    with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name, data in files.items():
                info = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
                if isinstance(data, bytes):
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
                else:
                    archive.addfile(info)


def publish(corpus, folder):
    """Write the miniature archives of a corpus into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    stems = {}  # files with the same stem are parallel: their sentences have the same numbers
    for archive, files in ARCHIVES[corpus].items():
        contents = {}
        for name, (make, language, count, stem) in files.items():
            start = 10_000 + 100 * stems.setdefault(stem, len(stems))
            contents[name] = make(language, start, count).encode()
        write_archive(folder / archive, contents)
    return folder
