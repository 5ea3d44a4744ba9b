"""Tokenises standard input, a sentence a line: ``python -m diverse_mha.corpora.tokenise``."""

import argparse

from diverse_mha.corpora.text import filter_cli, make_tokeniser


def main() -> None:
    """Write the tokens of each line, separated by spaces."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--language", required=True, help="whose abbreviations stay whole; zh is cut by jieba")
    add("--tokeniser", choices=("moses", "none"), default="moses", help="none: spaces only")
    add("--nfc", action="store_true", help="compose letters and marks first")
    add("--normalise", action="store_true", help="unify quotation marks, dashes and spaces")
    add("--straight-apostrophes", action="store_true", help="make typographic ones straight")
    add("--aggressive-dashes", dest="aggressive", action="store_true", help="split at inner dashes")
    add("--lowercase", action="store_true")
    filter_cli(make_tokeniser(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
