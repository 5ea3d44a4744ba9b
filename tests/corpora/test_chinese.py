"""Chinese words, by jieba."""

import os
import tempfile

from diverse_mha.corpora import chinese
from diverse_mha.corpora.text import make_tokeniser


def test_words_are_cut_and_special_characters_escaped(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))
    chinese._segmenter.cache_clear()
    tokenise = make_tokeniser("zh")
    assert tokenise("我来到北京清华大学。") == "我 来到 北京 清华大学 。"
    assert tokenise(" UN\t& 2017 年 [1] ") == "UN &amp; 2017 年 &#91; 1 &#93;"
    assert tokenise("") == ""
    assert list(tmp_path.iterdir()) == []  # no cache that another user could replace
    assert capfd.readouterr() == ("", "")
