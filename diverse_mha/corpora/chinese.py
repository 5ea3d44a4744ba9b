"""Chinese word segmentation, by jieba."""

import functools
import logging
import tempfile
from collections.abc import Callable, Iterable

from diverse_mha.common.errors import UserError


def require_jieba() -> None:
    """Raise a :class:`UserError` if jieba is not installed."""
    try:
        import jieba  # noqa: F401
    except ImportError:
        raise UserError("Chinese text needs jieba: run pip install jieba") from None


def make_chinese_tokeniser(
    join: Callable[[Iterable[str]], Iterable[str]] = list,
) -> Callable[[str], str]:
    """Build a function from a Chinese sentence to its words, joined by spaces.

    jieba's default mode: its dictionary, with its hidden Markov model for words it does not
    have. Special characters are then escaped as by the tokeniser of the other languages, so
    that detokenising treats all alike. ``join`` puts together what should not have been cut.
    """
    require_jieba()
    from sacremoses import MosesTokenizer

    escape, segmenter = MosesTokenizer(lang="en").escape_xml, _segmenter()

    def tokenise(sentence: str) -> str:
        words = join(word.strip() for word in segmenter.cut(sentence))
        return escape(" ".join(word for word in words if word))

    return tokenise


@functools.cache
def _segmenter():
    """Return jieba with its dictionary loaded, which takes a second."""
    import jieba

    jieba.setLogLevel(logging.WARNING)
    segmenter = jieba.Tokenizer()
    # jieba keeps a cache of its dictionary in the common temporary folder, and believes whatever
    # it finds there under that name. A second per process is a small price for not doing so.
    with tempfile.TemporaryDirectory(prefix="jieba-") as folder:
        segmenter.tmp_dir = folder
        segmenter.initialize()
    return segmenter
