"""What the documents must keep up with."""

import re
from pathlib import Path

from diverse_mha import show_options

OPTIONS = (Path(__file__).parents[1] / "docs" / "options.md").read_text()


def test_every_option_is_in_the_document_with_its_default_and_help():
    """A row for each; defaults that differ from name to name are those of most names."""
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| (.*) \|$", OPTIONS, re.M))
    defaults: dict[str, list[str]] = {}
    for component in show_options.components().values():
        for option in component.own:
            name = show_options.flag(option).removeprefix("--")
            defaults.setdefault(name, []).append(show_options.default_of(option))
            assert rows[name].endswith(f" | {option.metadata['help']}"), name
    assert rows.keys() == defaults.keys()
    for name, values in defaults.items():
        assert rows[name].split(" |")[0] == max(values, key=values.count), name
