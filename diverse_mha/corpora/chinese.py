"""Chinese word segmentation, by jieba."""

import functools
import logging
import tempfile
from collections.abc import Callable

from diverse_mha.common.errors import UserError


def make_chinese_tokeniser() -> Callable[[str], str]:
    """Return a function that splits a Chinese sentence into words, joined by spaces.

    jieba runs in its default mode, with a dictionary, and a hidden Markov model for unknown words.
    Special characters are escaped as in Moses' tokeniser.
    """
    from sacremoses import MosesTokenizer

    escape, segmenter = MosesTokenizer(lang="en").escape_xml, _segmenter()

    def tokenise(sentence: str) -> str:
        words = (word.strip() for word in segmenter.cut(sentence))
        return escape(" ".join(word for word in words if word))

    return tokenise


@functools.cache
def _segmenter():
    """Return jieba with its dictionary loaded."""
    try:
        import jieba
    except ImportError:
        raise UserError("Chinese text needs jieba: run pip install jieba") from None
    jieba.setLogLevel(logging.WARNING)
    segmenter = jieba.Tokenizer()
    # In a shared temporary folder, jieba would load a cache that another user may have written.
    with tempfile.TemporaryDirectory(prefix="jieba-") as folder:
        vars(segmenter).update(tmp_dir=folder)  # jieba's own type says None
        segmenter.initialize()
    return segmenter
