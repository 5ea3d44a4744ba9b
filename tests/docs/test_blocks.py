"""Commands are found on a page as bash would read them."""

import pytest

from tests.docs import table
from tests.docs.blocks import Command, read

PAGE = """text

```sh
# about it
one --option \\
    value    # said beside it
WORDS="two
    lines"
```

```python
three
```

<!-- not run: needs a machine -->
```sh
four
```

```sh
five 'a b' "${x:-}"
```
"""


def test_blocks_become_commands_with_their_lines_and_marks():
    assert read("p.md", PAGE) == [
        Command("p.md", 5, "one --option \\\n    value    # said beside it", None),
        Command("p.md", 7, 'WORDS="two\n    lines"', None),
        Command("p.md", 17, "four", "needs a machine"),
        Command("p.md", 21, "five 'a b' \"${x:-}\"", None),
    ]


def test_a_block_that_bash_does_not_understand_is_named():
    with pytest.raises(AssertionError, match="p.md:2: bash does not understand"):
        read("p.md", "```sh\necho 'open\n```\n")


def test_a_command_is_filled_in_and_shortened():
    said = "bash scripts/train.sh --config configs/RECIPE.yaml \\\n    method=coda    # a comment"
    assert table.runnable("p.md", said) == (
        "bash scripts/train.sh --config configs/multi30k_small.yaml method=coda"
        f" optimization.max_update={table.UPDATES}"
    )
