"""The recipe of each corpus at each scale, and its changes at the smaller scales."""

from dataclasses import dataclass, field, replace

DATA = "{data}"  # stands for the folder of prepared corpora in a command


@dataclass(frozen=True)
class Recipe:
    """Recipe for a corpus of the papers at one scale, and the changes of that recipe."""

    config: str  # the recipe in ``configs/``
    folder: str = ""  # corpus below the data folder; empty: the recipe's; ``{task}``: probing task
    prepare: tuple[str, ...] = ()  # a script of ``data-prep/`` and its options; empty: the recipe's
    reverse: bool = False  # True if the corpus is prepared in the direction opposite to the paper's
    width: float = 1.0  # ratio of the model width to the paper's
    ffn: int = 4  # ratio of the feed-forward width to the model width
    #: Settings of each size; empty if ``configs/size/`` has them.
    sizes: dict[str, dict] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)  # settings of all runs


def both_sides(**shape: int) -> dict[str, int]:
    """Return settings that give encoder and decoder the same shape."""
    sides = ("encoder", "decoder")
    return {f"model.{side}_{name}": value for side in sides for name, value in shape.items()}


_ONE_SIZE = {"base": {}}
_OFTEN = {"checkpoint.save_interval_updates": 500, "checkpoint.keep_interval_updates": 1}

# The longer Multi30k recipe, trained until the learning rate is 0.
_CONVERGED = Recipe("multi30k", sizes=_ONE_SIZE)
# Replaces the papers' translation corpora at the scale small; shares runs with the study's tables.
_MULTI30K = replace(
    _CONVERGED,
    config="multi30k_small",
    width=1 / 4,
    ffn=2,
    sizes={
        "base": {},
        "iwslt": {},
        "big": both_sides(embed_dim=256, ffn_embed_dim=512, attention_heads=8),
        "big_8_heads": both_sides(embed_dim=256, ffn_embed_dim=512, attention_heads=4),
    },
)
_DEMO = Recipe(
    config="demo",
    prepare=("prepare-demo.sh", "--pairs", "500", "--merges", "200", "--out", f"{DATA}/demo"),
    width=1 / 8,
    ffn=2,
    sizes={
        "base": {},
        "iwslt": both_sides(attention_heads=4),
        "big": both_sides(embed_dim=128, ffn_embed_dim=256, attention_heads=16),
        "big_8_heads": both_sides(embed_dim=128, ffn_embed_dim=256, attention_heads=8),
    },
)
_PTB = Recipe("ptb", sizes=_ONE_SIZE, settings=_OFTEN)
_DEMO_LM = Recipe("demo_lm", sizes=_ONE_SIZE)
_LOGIC = Recipe("logic", sizes=_ONE_SIZE)
_PROBING = Recipe("probing", "probing/{task}", ("prepare-probing.sh",), sizes=_ONE_SIZE)
# Trains in two hours on a CPU core; see configs/logic.yaml.
_SMALL_LOGIC = {
    "common.bf16": True,
    "model.encoder_embed_dim": 128,
    "model.encoder_ffn_embed_dim": 512,
    "model.encoder_attention_heads": 4,
    "model.encoder_normalize_before": True,
    "model.dropout": 0.05,
    "optimization.lr": [0.001],
    "optimization.max_update": 50000,
    "lr_scheduler._name": "polynomial_decay",
    "lr_scheduler.warmup_updates": 1000,
    "checkpoint.save_interval_updates": 1000,
    "checkpoint.keep_interval_updates": 1,
}
_BRIEF = {
    "optimization.max_epoch": 0,
    "optimization.max_update": 12,
    "dataset.batch_size": 32,
    "common.log_interval": 3,
    "checkpoint.save_interval_updates": 6,
    "checkpoint.keep_interval_updates": 1,
    "model.encoder_embed_dim": 32,
    "model.encoder_ffn_embed_dim": 64,
}


def _translation(config: str, *, reverse: bool = False, **more) -> dict[str, Recipe]:
    """Return a translation corpus's recipes by scale."""
    small, smoke = (replace(recipe, reverse=reverse) for recipe in (_MULTI30K, _DEMO))
    return {"paper": Recipe(config, **more), "small": small, "smoke": smoke}


#: Corpus of a paper or of our study -> scale -> recipe.
CORPORA: dict[str, dict[str, Recipe]] = {
    "wmt14_en_de": _translation("wmt14_en_de", reverse=True),
    "wmt17_zh_en": _translation("wmt17_zh_en"),
    "wmt14_en_de_google": _translation("wmt14_en_de_google", reverse=True),
    "iwslt14_de_en": _translation(
        "iwslt14_de_en",
        sizes={"iwslt": {}},
        settings={"model._name": "transformer_disagree_iwslt_de_en"},
    ),
    "iwslt17_de_en": _translation("iwslt17_de_en"),
    "wmt17_de_en": _translation("wmt17_de_en"),
    "un_ru_en": _translation("un_ru_en"),
    "un_zh_en": _translation("un_zh_en"),
    "multi30k": {"small": _CONVERGED, "smoke": replace(_DEMO, sizes=_ONE_SIZE)},
    "multi30k_small": {
        "small": replace(_CONVERGED, config="multi30k_small", ffn=2),
        "smoke": replace(_DEMO, sizes=_ONE_SIZE),
    },
    "tatoeba": {
        "small": replace(_CONVERGED, config="tatoeba", ffn=2),
        "smoke": replace(_DEMO, sizes=_ONE_SIZE),
    },
    "ptb": {"paper": _PTB, "small": _PTB, "smoke": _DEMO_LM},
    "wiki103": {
        "paper": replace(
            _PTB,
            config="wiki103",
            settings={"model._name": "transformer_lm_disagree_wiki103"},
        ),
        "small": replace(
            _PTB,
            config="wiki103_small",
            settings={"model._name": "transformer_lm_disagree"},
        ),
        "smoke": replace(
            _DEMO_LM,
            config="wiki103_small",
            folder="demo-text",
            prepare=("prepare-demo-text.sh",),
            settings={
                "eval_lm.context_window": 24,
                "model._name": "transformer_lm_disagree",
                "task.tokens_per_sample": 32,
                "model.decoder_embed_dim": 32,
                "model.decoder_ffn_embed_dim": 64,
                "model.adaptive_input_cutoff": "100,200",
                "model.adaptive_softmax_cutoff": "100,200",
                "dataset.max_tokens": 256,
                "common.log_interval": 3,
                "optimization.max_update": 12,
                "lr_scheduler.warmup_updates": 5,
                "lr_scheduler.lr_period_updates": 7,
                "checkpoint.save_interval_updates": 6,
                "checkpoint.keep_interval_updates": 1,
            },
        ),
    },
    "logic": {
        "paper": replace(
            _LOGIC,
            folder="logic-published",
            prepare=("prepare-logic.sh", "--published", "--out", f"{DATA}/logic-published"),
        ),
        "small": replace(_LOGIC, settings=_SMALL_LOGIC),
        "smoke": replace(
            _LOGIC,
            prepare=("prepare-logic.sh", "--draws", "3000", "--out", f"{DATA}/logic"),
            settings=_BRIEF | {"model.encoder_attention_heads": 4},
        ),
    },
    "probing": {
        "paper": _PROBING,
        "smoke": replace(
            _PROBING, prepare=("prepare-probing.sh", "--demo", "500"), settings=_BRIEF
        ),
    },
}
