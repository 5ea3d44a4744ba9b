"""Describes the commands of ``diverse-mha`` in Markdown, from their parsers."""

import argparse
import contextlib
import io
import os
import re
import sys
from unittest.mock import patch

from diverse_mha import cli


class _Asked(Exception):
    """Raised instead of printing a parser's help."""


def markdown() -> str:
    """Return a section of Markdown for each command."""
    environment = {"DIVERSE_MHA_SCRIPT": "", "COLUMNS": "90"}
    with patch.dict(os.environ, environment), patch.object(sys, "argv", ["diverse-mha"]):
        return "\n\n".join(map(_section, cli.COMMANDS))


def _section(name: str) -> str:
    """Return the section of a command."""
    shown = io.StringIO()

    def ask(parser, file=None):
        raise _Asked(parser)

    with patch.object(argparse.ArgumentParser, "print_help", ask):
        try:
            with contextlib.redirect_stdout(shown):
                cli.run([name, "--help"])
        except _Asked as asked:
            text = "\n\n".join(_described(asked.args[0]))
        else:  # a command that takes fairseq's options has a text instead of a parser
            text = _block(shown.getvalue())
    return f"## diverse-mha {name}\n\n{text}"


def _described(parser: argparse.ArgumentParser):
    """Yield the parts of a parser's help: what it does, usage, arguments, examples."""
    yield _escaped(parser.description or "")
    yield _block(parser.format_usage().removeprefix("usage: "))
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        actions = [action for action in actions if not isinstance(action, argparse._HelpAction)]
        if actions:
            formatter = parser._get_formatter()
            yield f"**{group.title.capitalize()}**"
            yield "\n\n".join(
                f"`{formatter._format_action_invocation(action)}`\n"
                f": {_escaped(formatter._expand_help(action) if action.help else '')}"
                for action in actions
            )
    if parser.epilog:
        text, example, commands = parser.epilog.partition("example")
        yield _escaped(text)
        yield _block(example + commands)


def _block(text: str) -> str:
    """Return a code block, or nothing for an empty text."""
    if not text:
        return ""
    return f"```text\n{text.strip()}\n```"


def _escaped(text: str) -> str:
    """Return a text as Markdown: its special characters escaped, options as code."""
    text = re.sub(r"([\\`*_{}\[\]<>#$|])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", text)
