"""BLEU of the same translations as tokens and as plain text."""

import re
from collections.abc import Sequence

_COMPOUND = re.compile(r"(\S)-(\S)")


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Turn tokenised lines into plain text with the rules of Moses, escapes undone."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=language)
    return [moses.detokenize(line.split()) for line in lines]


def split_compounds(line: str) -> str:
    """Split hyphenated words of a tokenised line into three tokens, the hyphen one of them.

    The reported BLEU of Vaswani et al. 2017 is said to have been scored so, and papers on the same
    data do it to be comparable with it (Zheng et al. 2021, appendix A.1). It adds easy matches.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def bleu_scores(
    tokenised: Sequence[str],
    plain: Sequence[str],
    tok_reference: Sequence[str],
    raw_reference: Sequence[str],
    *,
    target_lang: str,
    lowercase: bool = False,
    compound_split: bool = False,
) -> dict:
    """Score the same translations both ways.

    Args:
        tokenised: Translations as tokens.
        plain: The same as plain text.
        tok_reference: One tokenised reference for each.
        raw_reference: One untouched reference for each.
        target_lang: Chooses sacreBLEU's tokeniser, which is another one for some languages.
        lowercase: Whether to ignore case.
        compound_split: Whether to score with hyphenated words split, too.

    Returns:
        ``tokenised_bleu``, ``sacrebleu`` and perhaps ``compound_split_bleu`` in percent, each
        with its signature.
    """
    from sacrebleu.metrics import BLEU

    by_token = BLEU(tokenize="none", lowercase=lowercase, force=True)
    by_text = BLEU(lowercase=lowercase, trg_lang=target_lang)
    token_score = by_token.corpus_score(list(tokenised), [list(tok_reference)])
    text_score = by_text.corpus_score(list(plain), [list(raw_reference)])
    scores = {
        "tokenised_bleu": round(token_score.score, 4),
        "tokenised_signature": str(by_token.get_signature()),
        "sacrebleu": round(text_score.score, 4),
        "sacrebleu_signature": str(by_text.get_signature()),
    }
    if compound_split:
        hypotheses, references = ([*map(split_compounds, x)] for x in (tokenised, tok_reference))
        score = by_token.corpus_score(hypotheses, [references])
        scores["compound_split_bleu"] = round(score.score, 4)
        scores["compound_split_signature"] = f"{by_token.get_signature()}|compounds:split"
    return scores
