"""What is refused before the search; the search itself is tested in integration/."""

from types import SimpleNamespace

import pytest

from diverse_mha.common.errors import UserError
from diverse_mha.evaluation.deploy.translator import Translator


@pytest.mark.parametrize(
    "most, given, message",
    [
        (6, 4000, r"line 3: 7 subwords, and at most 6 are read at once; split it \(at the end of"),
        (1024, 5, "line 3: 7 subwords, .* 5 are read at once; --max-tokens 5 is too small for it"),
    ],
)
def test_a_line_too_long_is_named_with_what_sets_the_limit(most, given, message):
    def count(lines, encode):
        return lines, [len(line.split()) + 1 for line in lines]

    task = SimpleNamespace(get_interactive_tokens_and_lengths=count)
    translator = Translator.__new__(Translator)
    translator._hub = SimpleNamespace(task=task, max_positions=(most, most))
    translator._encode, translator._options = str, SimpleNamespace(buffer=9, max_tokens=given)
    with pytest.raises(UserError, match=message):
        list(translator.translate(["a", "", "a b c d e f"]))
