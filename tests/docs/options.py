"""Reads the options of every ``diverse-mha`` command, and the options that pages use."""

import contextlib
import functools
import io
import re
from collections.abc import Iterator

from diverse_mha import cli
from tests.docs.blocks import ROOT

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_CALL = re.compile(r"(?:\bdiverse-mha |\bscripts/)([\w-]+)([^`|;&>#]*)")


def unknown(text: str) -> Iterator[str]:
    """Yield ``COMMAND: --option`` for options in a text that do not exist in their command."""
    for name, words in _CALL.findall(text.replace("\\\n", " ")):
        name = name.removesuffix(".sh")
        if name in cli.COMMANDS and not (name == "train" and "--config" not in words):
            yield from (f"{name}: {one}" for one in OPTION.findall(words) if one not in known(name))


@functools.cache
def known(name: str) -> frozenset[str]:
    """Return the options in a command's help, with those of fairseq if the command has them."""
    help_text = io.StringIO()
    with contextlib.redirect_stdout(help_text), contextlib.suppress(SystemExit):
        cli.run([name, "--help"])
    found = set(OPTION.findall(help_text.getvalue()))
    return frozenset(found | _fairseq() if name in ("evaluate", "evaluate-lm") else found)


@functools.cache
def _fairseq() -> set[str]:
    from fairseq import options

    parser = options.get_generation_parser(default_task="exact_translation")
    return set(parser._option_string_actions)


def spans(page: str) -> list[str]:
    """Return the inline code of a page."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
