"""Scores translations (tokenised BLEU, sacreBLEU, chrF) and writes an evaluation's files."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import json_text, write_results
from diverse_mha.common.plugins import without_user_dir
from diverse_mha.common.progress import counted
from diverse_mha.corpora.text import rules_for

if TYPE_CHECKING:  # diverse-mha compare imports neither torch nor fairseq
    from diverse_mha.evaluation.fairseq_command import Inputs

#: Suffixes of the translations beside a result: tokenised and detokenised.
TRANSLATIONS = (".hyp.tok", ".hyp.detok")
_COMPOUND = re.compile(r"(\S)-(\S)")


def composed(lines: Sequence[str]) -> list[str]:
    """Return lines in Unicode's NFC, in which equal text has equal code points."""
    return [unicodedata.normalize("NFC", line) for line in lines]


def split_compounds(line: str) -> str:
    """Split hyphenated words into three tokens, as Zheng et al. 2021 do (appendix A.1)."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)


def check_scorer(language: str) -> None:
    """Raise an error if sacreBLEU cannot tokenise a language here."""
    from sacrebleu.metrics.bleu import BLEU

    code = rules_for(language)
    try:
        BLEU(trg_lang=code)
    except (OSError, RuntimeError) as error:  # a model's download failed, or software is missing
        raise UserError(
            f"sacreBLEU cannot tokenise {language} here ({str(error).strip().splitlines()[0]}); "
            f'pip install "sacrebleu[{code}]", or run the command once with a network'
        ) from error


def bleu_scores(
    tokenised: Sequence[str] | None,
    plain: Sequence[str],
    tok_reference: Sequence[str],
    raw_reference: Sequence[str],
    *,
    target_lang: str,
    lowercase: bool = False,
    compound_split: bool = False,
) -> dict:
    """Return ``tokenised_bleu``, ``sacrebleu`` and ``chrf`` in percent, with their signatures.

    Args:
        tokenised: tokenised translations; None: no tokenised BLEU.
        plain: detokenised translations, compared in Unicode's NFC.
        tok_reference: reference of ``tokenised``.
        raw_reference: reference of ``plain``.
        target_lang: language code that chooses sacreBLEU's tokeniser.
        lowercase: ignore case.
        compound_split: also return ``compound_split_bleu`` (:func:`split_compounds`).
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    by_token = BLEU(tokenize="none", lowercase=lowercase, force=True)
    by_text = BLEU(lowercase=lowercase, trg_lang=rules_for(target_lang))
    by_characters = CHRF(lowercase=lowercase)
    scores = {}
    if tokenised is not None:
        token_score = by_token.corpus_score(list(tokenised), [list(tok_reference)])
        scores["tokenised_bleu"] = round(token_score.score, 4)
        scores["tokenised_signature"] = str(by_token.get_signature())
    text_score = by_text.corpus_score(composed(plain), [composed(raw_reference)])
    scores["sacrebleu"] = round(text_score.score, 4)
    scores["sacrebleu_signature"] = str(by_text.get_signature())
    characters = by_characters.corpus_score(composed(plain), [composed(raw_reference)])
    scores["chrf"] = round(characters.score, 4)
    scores["chrf_signature"] = str(by_characters.get_signature())
    if compound_split and tokenised is not None:
        hypotheses, references = ([*map(split_compounds, x)] for x in (tokenised, tok_reference))
        score = by_token.corpus_score(hypotheses, [references])
        scores["compound_split_bleu"] = round(score.score, 4)
        scores["compound_split_signature"] = f"{by_token.get_signature()}|compounds:split"
    return scores


@dataclass(frozen=True)
class Decoding:
    """Settings of an evaluation: data, search and scoring."""

    inputs: "Inputs"
    source_lang: str
    target_lang: str
    beam: int
    lenpen: float
    post_process: str | None  # kind of subwords
    tokenised: bool  # False: the data was not tokenised, so there is no tokenised BLEU
    lowercase: bool
    moses_language: str | None
    compound_split: bool
    raw_reference: Path | None  # --raw-reference
    tok_reference: Path | None  # --tok-reference
    engine: str = "fairseq"  # runs the beam search: "fairseq" or "ctranslate2"

    def to_json(self) -> dict:
        """Return the settings that a result records."""
        return {
            "data": self.inputs.data,
            "raw_reference": str(self.raw_reference) if self.raw_reference else None,
            "tok_reference": str(self.tok_reference) if self.tok_reference else None,
            "lowercase": self.lowercase,
            "beam": self.beam,
            "lenpen": self.lenpen,
            "generate_options": without_user_dir(self.inputs.extra),
            "engine": self.engine,
            "post_process": self.post_process,
            "moses_language": self.moses_language,
            "compound_split": self.compound_split,
        }


def report(
    decoding: Decoding,
    output: Path,
    translations: tuple[list[str], list[str]],
    references: tuple[list[str], list[str]],
    *,
    source_sha256: str | None,
    seconds: float,
) -> None:
    """Score translations; write scores and translations, and print the scores.

    Args:
        decoding: settings of the evaluation.
        output: JSON file for the scores; the translations are written beside it.
        translations: tokenised and detokenised translations.
        references: tokenised and plain-text references.
        source_sha256: hash of the source text; None: unknown.
        seconds: duration of decoding.
    """
    scores = bleu_scores(
        translations[0] if decoding.tokenised else None,
        translations[1],
        *references,
        target_lang=decoding.target_lang,
        lowercase=decoding.lowercase,
        compound_split=decoding.compound_split,
    )
    subset = decoding.inputs.subset
    results = scores | {
        "checkpoint": decoding.inputs.checkpoint,
        **decoding.to_json(),
        "subset": subset,
        "target_lang": decoding.target_lang,
        "source_sha256": source_sha256,
        "sentences": len(translations[0]),
        "seconds": round(seconds, 2),
    }
    write_evaluation(output, *translations, results)
    print(
        f"{subset}: {counted(len(translations[0]), 'sentence')}, beam {decoding.beam}, "
        f"length penalty {decoding.lenpen:g}, {seconds:.1f} s"
    )
    if decoding.tokenised:
        print(f"  tokenised BLEU  {scores['tokenised_bleu']:6.2f}")
    if decoding.compound_split:
        print(f"  compound-split  {scores['compound_split_bleu']:6.2f}")
    print(f"  sacreBLEU       {scores['sacrebleu']:6.2f}  {scores['sacrebleu_signature']}")
    print(f"  chrF            {scores['chrf']:6.2f}  {scores['chrf_signature']}")
    translated = ".hyp.tok and .hyp.detok" if decoding.tokenised else ".hyp.detok"
    print(f"written: {output}, and beside it the translations ({translated})")


def write_evaluation(output: Path, tokenised: list[str], plain: list[str], results: dict) -> None:
    """Write the translations and the JSON file: if it exists, the evaluation is complete."""
    translations = zip(TRANSLATIONS, (tokenised, plain), strict=True)
    files = {
        output.with_suffix(ending): "".join(f"{line}\n" for line in lines)
        for ending, lines in translations
    }
    write_results(files | {output: json_text(results)})
