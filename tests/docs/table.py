"""Changes that tests make to documented commands before running them.

``PLACEHOLDERS`` replaces words that a reader fills in. ``SHORTER`` reduces trainings of hours to
three updates. ``GIVEN`` lists the data and models of other pages that a page requires.
"""

import re

from diverse_mha.common.files import ROOT

UPDATES = 3

# A model of transformers with text, made by WORLD, for the words that pages have.
HUB = {
    "models/marian": "runs/hub/marian",
    "models/pruned": "runs/hub/pruned",
    "dev.de": "runs/hub/text.src",
    "dev.en": "runs/hub/text.tgt",
    "test.de": "runs/hub/text.src",
    "test.en": "runs/hub/text.tgt",
}
# For each page, placeholders and the words that replace them. "": on all pages.
PLACEHOLDERS = {
    "": {
        "CHECKPOINT": "runs/toy/checkpoint_best.pt",
        "DATA": "data/multi30k/bin",
        "RECIPE": "multi30k_small",
        "RUN": "runs/wiki103_small/coda",
        "NAME.yaml key=value ...": "multi30k_small.yaml checkpoint.save_dir=runs/named",
        "baseline,ROW": "baseline,out",
        "--output FOLDER": "--output runs/figures",
        "--from FOLDER": "--from archives",
    },
    "README.md": HUB | {"DATA ...": "data/multi30k/bin"},
    "docs/hub-heads.md": HUB | {"> alignments": "> runs/alignments"},
    "docs/coming-from.md": {"DATA ...": "data/multi30k/bin"},
    "docs/recipes.md": {"mine.yaml": "runs/mine.yaml"},
    # The stand-in for the demo corpus has no gold alignments.
    "docs/align.md": {"--gold data/demo/raw/valid.align": "--max-tokens 2000"},
    "docs/classification.md": {
        "prepare-logic.sh --from FOLDER": "prepare-logic.sh --from published"
    },
    "results/details.md": {
        "prepare-logic.sh --from FOLDER": "prepare-logic.sh --from published",
        # The page runs no row of these tables at the smoke scale, so there is nothing to collect.
        "--seeds 1,2,3,4,5 --collect": "--seeds 1,2,3,4,5 --dry-run",
        "--rows baseline,em --collect": "--rows baseline,em --dry-run",
        "logic --scale small --seeds 1,2 --collect": "logic --scale small --seeds 1,2 --dry-run",
    },
}
# Values of shell variables that a page describes in words.
VARIABLES = {
    "model": "coda",
    "method": "hsic",
    "seed": "1",
    "heads": "4",
    "row": "hsic",
    "weight": "1.0",
    "settings": "criterion.hsic_weight=1e-7",
}

OWN_OPTIONS = (
    "--task exact_translation --optimizer adam --lr 1e-3 --max-tokens 500 --cpu"
    f" --max-update {UPDATES} --save-dir runs/own"
)
SMALLER = " ".join(
    f"++model.{side}_{size}"
    for side in ("encoder", "decoder")
    for size in ("layers=2", "embed_dim=64", "ffn_embed_dim=64")
)
BENCHMARK = "--shape tiny --batch-tokens 200 --rounds 3 --warm-up 1"

# Patterns, and the options appended to commands that match. If an option is repeated, the last
# one takes effect.
SHORTER = [
    (
        r"^(\w+=\S+ )?(bash scripts/train\.sh --config|fairseq-hydra-train)",
        f"optimization.max_update={UPDATES}",
    ),
    (r"configs/iwslt14", SMALLER),
    (
        r"^bash scripts/run\.sh (?!.*--print)",
        f"optimization.max_update={UPDATES} ++generation.max_len_b=10 --from archives",
    ),
    (
        r"^bash scripts/run\.sh multi30k_small (?!.*--print)",
        "'scoring.prepare=prepare-multi30k.sh --merges 150'",  # as WORLD prepares it
    ),
    (r"^fairseq-train", OWN_OPTIONS),
    (r"^bash scripts/test\.sh .", "--collect-only -q"),
    (r"^diverse-mha analyze .*--output", "--layers last --measures cka"),  # fewer figures
    (r"^python examples/head_terms\.py", "2"),
    (r"^diverse-mha prune .*--curve", "--curve 0,0.5 --by random"),
    # After three updates a model does not end its sentences by itself.
    (r"^(bash scripts/evaluate\.sh|fairseq-generate|time fairseq-interactive)", "--max-len-b 10"),
    (r"^bash scripts/reproduce\.sh .*--scale smoke", "--rows none"),
    (r"^diverse-mha reproduce study .*--scale smoke", "--seeds 1 --rows baseline"),
    (r"reproduce(\.sh)? .*--scale (small|paper)(?!.*--(dry-run|collect))", "--dry-run"),
    (r"^bash data-prep/prepare-multi30k\.sh", "--merges 150 --from archives"),
    (r"^bash data-prep/prepare-iwslt14\.sh", "--merges 150 --from archives"),
    (r"^bash data-prep/prepare-own\.sh(?!.*--like)", "--merges 150"),
    (r"^bash data-prep/prepare-logic\.sh(?!.*--from)", "--draws 3000"),
    (r"^bash data-prep/prepare-probing\.sh(?!.*--from)", "--from archives"),
    (r"^bash scripts/benchmark\.sh", BENCHMARK),
    (r"^bash scripts/check-gpu\.sh", "--help"),
]
# Replacements for parts of a command that need published files or do not fit the changes above.
INSTEAD = [
    (r"(diverse-mha translate \S+ \S+)", r"\1 --max-len-b 10"),
    (
        r"^bash data-prep/prepare-ptb\.sh",
        "bash data-prep/prepare-own-text.sh --from archives/ptb --out data/ptb",
    ),
    (r"(reproduce .*) --jobs \d+", r"\1"),  # has no effect in a dry run
    # Only rows of the smoke scale are finished; they come first on the page.
    (r"--scale small (.*--collect)", r"--scale smoke \1"),
]
# Pattern in a command, and the variables set before it.
SETTINGS = [(r"^bash scripts/quickstart\.sh", f"QUICKSTART_UPDATES={UPDATES}")]

# Data and models that are made once, in this order, for the pages that require them.
TOY = "bash scripts/train.sh --config configs/multi30k_small.yaml checkpoint.save_dir=runs"
EVALUATED = [  # reproduce gives the file of translations this name
    "bash scripts/evaluate.sh {run}/checkpoint_best.pt data/multi30k/bin --max-len-b 10",
    "cp {run}/checkpoint_best.test.hyp.detok {run}/test.hyp.detok",
]
SEEDS = range(2, 10)
WORLD = {
    "data/multi30k": ["bash data-prep/prepare-multi30k.sh"],
    "runs/toy": [f"{TOY}/toy", *(text.format(run="runs/toy") for text in EVALUATED)],
    # compare refuses copies of a run
    "runs/seeds": [
        text.format(run=f"runs/seeds/{seed}")
        for seed in SEEDS
        for text in (f"{TOY}/seeds/{seed} common.seed={seed}", *EVALUATED)
    ],
    "runs/hub": [
        "mkdir -p runs/hub",
        "python -c 'from pathlib import Path; from tests.hub.folders import save, texts;"
        ' folder = Path("runs/hub"); save("marian", folder / "marian"); texts(folder)\'',
    ],
    "runs/h1": [f"{TOY}/h1 model.encoder_attention_heads=1 model.decoder_attention_heads=1"],
    "data/ptb": ["bash data-prep/prepare-ptb.sh"],
    "data/iwslt14": ["bash data-prep/prepare-iwslt14.sh"],
    "data/logic": ["bash data-prep/prepare-logic.sh"],
    "published": [
        "mkdir -p published",
        "for n in {0..12}; do cp data/logic/pairs/$n.tsv published/train$n; done",
    ],
}
# For each page, the paths that its commands read, and the folder of WORLD that each links to.
MULTI30K = {"data/multi30k": "data/multi30k"}
GIVEN = {
    "README.md": MULTI30K | {"runs/toy": "runs/toy", "runs/hub": "runs/hub"},
    "docs/hub-heads.md": {"runs/hub": "runs/hub"},
    "docs/design.md": MULTI30K,
    **{f"docs/methods/{path.name}": MULTI30K for path in ROOT.glob("docs/methods/*.md")},
    "docs/analysis.md": MULTI30K
    | {"data/bin": "data/multi30k/bin", "data/ptb/bin": "data/multi30k/bin", "runs/h1": "runs/h1"}
    | dict.fromkeys(
        ("runs/toy", "runs/baseline", "runs/coda", "runs/h2", "runs/h8")
        + tuple(f"runs/ptb/{row}" for row in ("baseline", "hsic")),
        "runs/toy",
    ),
    "docs/align.md": {"data/demo": "data/multi30k", "runs/quickstart/baseline": "runs/toy"},
    "docs/heads.md": {
        "data/demo": "data/multi30k",
        "runs/quickstart/baseline": "runs/toy",
        "runs/quickstart/hsic": "runs/toy",
    },
    "docs/tutorial.md": {
        "data/demo": "data/multi30k",
        "runs/quickstart/baseline": "runs/toy",
        "runs/quickstart/hsic": "runs/toy",
    },
    "docs/coming-from.md": MULTI30K,
    "docs/data.md": MULTI30K | {"runs/multi30k_small/baseline": "runs/toy"},
    "docs/classification.md": {"published": "published"},
    "docs/deploy.md": MULTI30K | {"runs/toy": "runs/toy"},
    "docs/recipes.md": MULTI30K
    | {
        "data/ptb": "data/ptb",
        "data/iwslt14": "data/iwslt14",
        "runs/multi30k_small/baseline": "runs/toy",
    },
    "docs/reproduce.md": MULTI30K
    | {
        f"runs/{run}": f"runs/seeds/{seed}"
        for seed, run in zip(
            SEEDS,
            [
                *(f"multi30k_small/{name}" for name in ("baseline", "baseline-seed2")),
                *(f"multi30k_small/{name}" for name in ("hsic", "hsic-seed2")),
                *("output1", "output2", "output3"),
                "A",
            ],
            strict=True,
        )
    }
    | {"runs/B": "runs/toy"},
    "docs/performance.md": MULTI30K | {"runs/toy": "runs/toy"},
    "results/details.md": {"published": "published"},
}


def runnable(page: str, text: str) -> str:
    """Return a documented command with placeholders replaced and trainings shortened."""
    words = PLACEHOLDERS[""] | PLACEHOLDERS.get(page, {})
    for word in sorted(words, key=len, reverse=True):
        text = re.sub(rf"(?<![\w$-]){re.escape(word)}(?!\w)", words[word], text)
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    for pattern, other in INSTEAD:
        joined = re.sub(pattern, other, joined)
    for pattern, words_behind in SHORTER:
        if re.search(pattern, joined):
            joined += f" {words_behind}"
    for pattern, words_before in SETTINGS:
        if re.search(pattern, joined):
            joined = f"{words_before} {joined}"
    return joined
