"""Tokenises standard input line by line: ``python -m diverse_mha.corpora.tokenise``."""

import argparse

from diverse_mha.corpora.text import filter_cli, make_tokeniser


def main() -> None:
    """Write the tokens of each line, separated by spaces."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--language", required=True, help="language of the rules; zh is segmented by jieba")
    add("--tokeniser", choices=("moses", "none"), default="moses", help="none: unify white space")
    add("--nfc", action="store_true", help="compose letters and marks first")
    add("--normalise", action="store_true", help="unify quotation marks, dashes and spaces")
    add("--straight-apostrophes", action="store_true", help="replace typographic apostrophes")
    add(
        "--aggressive-dashes", dest="aggressive", action="store_true", help="split words at hyphens"
    )
    add("--lowercase", action="store_true")
    filter_cli(make_tokeniser(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
