"""Short trainings of every family and criterion, with options that draw random numbers."""

from pathlib import Path

from diverse_mha.common.files import ROOT

# Options that draw random numbers: attention noise, dropout, Drophead; _TERMS has HSIC's samples.
_NOISE = "--attention-noise 0.5 --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1"
_RANDOM = f"{_NOISE} --drophead 0.2"
_TERMS = (
    "--disagreement subspace,position,output --hsic-weight 1e-3 --hsic-samples 6 "
    "--orthogonality-weight 0.01 --diversity-start 1 --diversity-warmup-updates 5"
)
_SIDE = "--{0}-embed-dim 16 --{0}-ffn-embed-dim 24 --{0}-layers 2 --{0}-attention-heads 4"
_ENCODER, _DECODER = _SIDE.format("encoder"), _SIDE.format("decoder")

_TRANSLATION = f"""--task exact_translation --source-lang src --target-lang tgt
--criterion label_smoothed_cross_entropy_with_diversity --label-smoothing 0.1
--share-all-embeddings --max-tokens 64 --encoder-layerdrop 0.1 {_ENCODER} {_DECODER}"""
_LANGUAGE_MODEL = f"--task exact_language_modeling --tokens-per-sample 8 {_DECODER}"
_CROSS_ENTROPY = f"{_LANGUAGE_MODEL} --criterion cross_entropy_with_diversity --max-tokens 64"
_ADAPTIVE = f"""{_LANGUAGE_MODEL} --criterion adaptive_loss_with_diversity --max-tokens 64
--adaptive-softmax-cutoff 8,14 --adaptive-softmax-factor 2 --adaptive-softmax-dropout 0.1"""
_CLASSIFIER = f"""--task sentence_classification --batch-size 10 {_ENCODER}
--criterion sentence_classification_with_diversity"""

# Name: data folder of ``miniature``, and options.
RUNS = {
    "transformer_disagree": ("translation", _TRANSLATION),
    "transformer_routing": ("translation", _TRANSLATION),
    "transformer_coda": ("translation", _TRANSLATION),
    "transformer_lm_disagree": ("language_model", _CROSS_ENTROPY),
    "transformer_lm_routing": ("language_model", _CROSS_ENTROPY),
    "transformer_lm_coda": ("language_model", _ADAPTIVE),
    "sentence_classifier": ("classification", _CLASSIFIER),
}
#: Half precision. The scaler cannot skip updates on the CPU, so its scale starts low.
HALF = {
    "bf16": ["--bf16"],
    "memory-efficient-bf16": ["--memory-efficient-bf16"],
    "fp16": ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", 4],
    "memory-efficient-fp16": ["--memory-efficient-fp16", "--fp16-init-scale", 4],
}
_COMMON = f"""--user-dir {ROOT / "diverse_mha"} --optimizer adam --lr 1e-2
--lr-scheduler inverse_sqrt --warmup-updates 4 --clip-norm 1.0 --num-workers 0 --cpu --seed 5
--ddp-backend legacy_ddp --log-format none"""


def words(arch: str, data: Path, save_dir: Path, *options) -> list[str]:
    """Return the arguments of fairseq-train for a run; ``options`` override the run's own."""
    folder, own = RUNS[arch]
    common = [*_COMMON.split(), *own.split(), *_RANDOM.split(), *_TERMS.split()]
    rest = ["--save-dir", save_dir, *options]
    return [str(data / folder), "--arch", f"{arch}_tiny", *common, *map(str, rest)]
