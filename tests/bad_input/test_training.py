"""Wrong input to training: options of the plugin, recipes and the launcher."""

import pytest

from diverse_mha.common.files import ROOT
from tests.bad_input.harness import Row, check

pytestmark = pytest.mark.integration

TRAIN = (
    f"fairseq-train {{data}} --user-dir {ROOT}/diverse_mha --task {{task}} --arch {{arch}} "
    "--criterion {criterion} --optimizer adam --lr 1e-3 --max-tokens 300 --max-update 1 --cpu "
    "--num-workers 0 --save-dir save --no-save "
)
TRANSLATE = {
    "data": "bin",
    "task": "exact_translation --source-lang src --target-lang tgt",
    "arch": "transformer_disagree_tiny",
    "criterion": "label_smoothed_cross_entropy_with_diversity",
}
MODEL_LANGUAGE = {
    "data": "bin",
    "task": "exact_language_modeling --tokens-per-sample 16",
    "arch": "transformer_lm_disagree_tiny",
    "criterion": "cross_entropy_with_diversity",
}
CLASSIFY = {
    "data": "pairs",
    "task": "sentence_classification",
    "arch": "sentence_classifier_tiny",
    "criterion": "sentence_classification_with_diversity",
}


def train(options="", base=TRANSLATE, **changes):
    """Return a command line of fairseq-train. Its mistake is in ``options`` or ``changes``."""
    return TRAIN.format(**{**base, **changes}) + options


OPTIONS = [
    Row("no-architecture", train().replace("--arch transformer_disagree_tiny", ""),
        "--arch is missing", "such as transformer_disagree_small ('diverse-mha options'"),
    Row("no-optimizer", train().replace("--optimizer adam", ""), "--optimizer is missing",
        "such as adam"),
    Row("no-batch", train().replace("--max-tokens 300", ""), "--max-tokens or --batch-size is miss",
        "such as --max-tokens 4000"),
    Row("batch", train("--max-tokens 9"), "--max-tokens 9: example ", " or --max-tokens-valid "),
    Row("batch-all", train("--max-tokens 5"), "--max-tokens 5: all examples of train are longer",
        "give --max-tokens 13"),
    Row("batch-valid", train("--max-tokens-valid 5"), "--max-tokens-valid 5: example ",
        "tokens; give --max-tokens-valid "),
    Row("batch-pairs", train("--max-tokens 16 --train-subset valid", CLASSIFY),
        "--max-tokens 16: example ", "tokens; give --max-tokens "),
    Row("disagreement", train("--disagreement outputs"), "--disagreement outputs", "output"),
    Row("disagreement-on-missing",
        train("--disagreement output --disagreement-on cross", MODEL_LANGUAGE),
        "no 'cross' attention", "choose from decoder"),
    Row("hsic-weight", train("--hsic-weight -1"), "--hsic-weight -1", "0 or a positive"),
    Row("pruned-heads", train("--pruned-heads 1.1"), "--pruned-heads 1.1", "choose from encoder"),
    Row("heads", train("--encoder-attention-heads 3"), "3", "divi"),
    Row("new-folder", train("--encoder-attention-heads 3 --save-dir fresh/run").replace(
        "--no-save ", ""), "--encoder-attention-heads 3", "give a divisor"),
    Row("data-dictionary", train(data="baddict"), "baddict/dict", "fairseq-preprocess"),
    Row("data-cut-text", train(data="cutbin"), "cutbin/", "fairseq-preprocess"),
    Row("data-split", train("--valid-subset dev"), "'dev'", "it has "),
    Row("data-form", train("--dataset-impl raw"), "--dataset-impl raw", "mmap; leave it out"),
    Row("self-target", train("--self-target", MODEL_LANGUAGE), "--self-target", "leave it out"),
    Row("past-target", train("--past-target", MODEL_LANGUAGE), "--past-target", "leave it out"),
    Row("restore-cut", train("--restore-file cut.pt"), "cut.pt", "give another"),
    Row("restore-in-save", train("--restore-file last.pt --save-dir run"), "last.pt",
        "give run/last.pt"),
    Row("criterion-without", train("--criterion label_smoothed_cross_entropy --hsic-weight 1"),
        "--hsic-weight 1: --criterion label_smoothed_cross_entropy has no such",
        "give --criterion label_smoothed_cross_entropy_with_diversity"),
    Row("architecture-without", train("--logits=mlp", arch="transformer"),
        "--logits mlp: --arch transformer has no such option", "--arch transformer_coda or "),
    Row("task-without", train("--accuracy-by x"), "--accuracy-by x: --task exact_translation",
        "give --task sentence_classification"),
    Row("stock-architecture", train("--disagreement output", arch="transformer"),
        "a TransformerModel does not", "--arch transformer_disagree"),
    Row("fp16", train("--fp16"), "--fp16", "--bf16"),
    Row("memory-efficient", train("--optimizer fused_adam --memory-efficient-bf16"),
        "--optimizer fused_adam: does not go with --memory-efficient-bf16", "--optimizer adam, or"),
    Row("memory-efficient-fp16", train("--optimizer sgd --memory-efficient-fp16"),
        "--optimizer sgd: does not go with --memory-efficient-fp16", "or --bf16 alone"),
    Row("class-groups", train("--accuracy-by age", CLASSIFY), "--accuracy-by age", "leave it out"),
    Row("class-dictionary", train(base=CLASSIFY, data="badpairs"), "badpairs/label/dict.txt",
        "again"),
]  # fmt: skip

RECIPE = "train --config {}.yaml common.cpu=true "
#: A recipe of ours, which logs to a file in the run's folder.
LOGGED = (
    "train --config demo common.cpu=true task.data=bin task.source_lang=src task.target_lang=tgt "
    "checkpoint.save_dir=fresh/run "
)
RECIPES = [
    Row("new-folder-with-log", LOGGED + "criterion.disagreement=outputs",
        "criterion.disagreement=outputs", "choose from"),
    Row("new-folder-no-start", LOGGED + "++checkpoint.finetune_from_model=no.pt",
        "checkpoint.finetune_from_model=no.pt", "check the name"),
    Row("key", RECIPE.format("key"), "key.yaml: model.dropuot=0.1: model has no",
        "nearest are dropout"),
    Row("key-given", RECIPE.format("good") + "model.dropuot=1", "model.dropuot=1: model has no",
        "nearest are dropout"),
    Row("key-elsewhere", RECIPE.format("good") + "model.hsic_weight=1e-7",
        "model.hsic_weight=1e-07: model has no hsic_weight", "; it is criterion.hsic_weight"),
    Row("key-of-fairseq", RECIPE.format("good") + "++model.seed=1", "model.seed=1: model has no",
        "; it is common.seed"),
    Row("key-added-elsewhere", RECIPE.format("good") + "++dataset.hsic_weight=1",
        "dataset.hsic_weight=1: dataset has no", "; it is criterion.hsic_weight"),
    Row("key-misspelt-elsewhere", RECIPE.format("good") + "model.hsic_wieght=1",
        "model has no hsic_wieght", "nearest are criterion.hsic_weight"),
    Row("key-like-none", RECIPE.format("good") + "model.zzz=1", "model has no zzz",
        "; configs/ and docs/options.md list the keys"),
    Row("key-like-none-added", RECIPE.format("good") + "++dataset.zzz=1", "dataset has no zzz",
        "; configs/ and docs/options.md list the keys"),
    Row("key-not-listed", RECIPE.format("good") + "criterion.hsic_wieght=1",
        "criterion has no hsic_wieght", "nearest are hsic_weight"),
    Row("name-like-none", RECIPE.format("good") + "model._name=zzz", "there is no 'zzz'",
        "'diverse-mha options' lists names"),
    Row("task", RECIPE.format("good") + "task._name=exact_translatio",
        "task._name=exact_translatio: there is no", "nearest are exact_translation"),
    Row("task-of-model", RECIPE.format("good") + "model._name=transformer_lm_disagree_tiny",
        "model._name=transformer_lm_disagree_tiny: does not go with task._na",
        "give task._name=exact_language_modeling"),
    Row("size", "train --dry-run --config wiki103_small size=base",
        "size=base: the recipe wiki103_small has no group size", "with it: iwslt17_de_en"),
    Row("preset", "train --dry-run --config demo model._name=transformer_coda",
        "model._name=transformer_coda: sets logits=mlp, which method=baseline does not",
        "give model._name=transformer_disagree"),
    Row("two-methods", "train --dry-run --config demo method=coda+realformer",
        "method=coda+realformer: two of its methods set model.logits", "name one of them"),
    Row("unfit-method", "train --dry-run --config ptb method=em_routing_1_2",
        "method=em_routing_1_2: does not fit ptb", "choose from em_routing_decoder"),
    Row("group", RECIPE.format("group"), "group.yaml: modle: there is no group modle",
        "nearest is model"),
    Row("group-like-none", RECIPE.format("good") + "zzz.dropout=1", "zzz.dropout=1: there is no",
        "choose from bmuf, "),
    Row("evaluation", RECIPE.format("good") + "++scoring.avrage=5", "scoring has no key 'avrage'",
        "choose from prepare, average,"),
    Row("evaluation-value", RECIPE.format("good") + "++scoring.score=ter", "scoring.score=ter",
        "choose from"),
    Row("value", RECIPE.format("value"), "value.yaml: model.dropout=lots",
        "could not be converted to Float"),
    Row("choice", RECIPE.format("choice"), "'em-rooting'", "em-routing"),
    Row("key-of-another", RECIPE.format("good") + "criterion._name=cross_entropy",
        "criterion has no disagreement_weight",
        "give criterion._name=cross_entropy_with_diversity"),
    Row("key-of-another-group", RECIPE.format("good") + "++model.hsic_weight=5",
        "model.hsic_weight=5: model has no", "; it is criterion.hsic_weight"),
    Row("no-model", RECIPE.format("good") + "model._name=null", "model._name is missing",
        "such as transformer_disagree_small"),
    Row("no-criterion", RECIPE.format("good") + "criterion._name=null", "criterion._name is miss",
        "such as label_smoothed"),
    Row("no-batch-in-recipe", RECIPE.format("good") + "dataset.max_tokens=null",
        "dataset.max_tokens or dataset.batch_size is missing", "such as dataset.max_tokens=4000"),
    Row("range", RECIPE.format("range"), "model.drophead=2", "below 1"),
    Row("architecture", RECIPE.format("arch"), "'transformer_disagre'", "transformer_disagree"),
    Row("optimizer", RECIPE.format("optimizer"), "'adamm'", "adam"),
    Row("method", RECIPE.format("good") + "+method=magic", "method=magic: no such",
        "choose from"),
    Row("added", RECIPE.format("good") + "++dataset.max_token=9", "max_token", "max_tokens"),
    Row("override", RECIPE.format("good") + "'optimization.lr=[a'", "lr='[a': must be a list",
        "give ["),
    Row("language", RECIPE.format("good") + "task.source_lang=xx", "dict.xx.txt", "give its lang"),
    Row("memory-efficient-key", RECIPE.format("good") + "optimizer._name=fused_adam "
        "++common.bf16=true ++common.memory_efficient_bf16=true",
        "optimizer._name=fused_adam: does not go with common.memory_efficient_bf16",
        "or common.bf16=true alone"),
    Row("interpolation", RECIPE.format("good") + "task.data='${nowhere}'", "'nowhere'",
        "not found"),
]  # fmt: skip

LAUNCHES = [
    Row("processes", "train --processes 0 bin", "--processes: 0", "1 or more"),
    Row("world-size", "train bin --processes 2 --cpu --distributed-world-size 3", "2", "alone"),
    Row("backend", "train bin --processes 2 --cpu --ddp-backend c10d", "c10d", "legacy_ddp"),
    Row("options-first", "train --arch x bin", "data folder", "--help"),
    Row("no-recipe", "train --config no.yaml", "no.yaml", "no such file"),
    Row("recipe-value", "train --config", "--config", "--help"),
    Row("not-yaml", "train --config broken.yaml", "broken.yaml", "line 3"),
    Row("latin1", "train --config latin1.yaml", "latin1.yaml", "UTF-8"),
    Row("a-list", "train --config list-of.yaml", "list-of.yaml", "configs/"),
    Row("not-a-group", "train --config flat.yaml", "flat.yaml", "task.data=DATA"),
    Row("no-data-in-recipe", "train --config no-data.yaml", "no-data.yaml", "task.data=DATA"),
    Row("setting", "train --config good.yaml --lr 3", "--lr", "key=value"),
    Row(
        "blank",
        "train --config good.yaml checkpoint.restore_file runs/x.pt",
        "checkpoint.restore_file: ",
        "written checkpoint.restore_file=VALUE",
    ),
]

GOOD = f"""
common: {{user_dir: {ROOT}/diverse_mha, cpu: true}}
task: {{_name: exact_translation, data: bin, source_lang: src, target_lang: tgt}}
model: {{_name: transformer_disagree_tiny, dropout: 0.1, aggregation: linear, drophead: 0.0}}
criterion: {{_name: label_smoothed_cross_entropy_with_diversity, disagreement_weight: 1.0}}
dataset: {{max_tokens: 300, num_workers: 0}}
optimization: {{max_update: 1, lr: [0.001]}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
checkpoint: {{save_dir: save, no_save: true}}
"""
SPOILT = {
    "key": ("dropout: 0.1", "dropuot: 0.1"),
    "group": ("model:", "modle:"),
    "value": ("dropout: 0.1", "dropout: lots"),
    "choice": ("linear", "em-rooting"),
    "range": ("drophead: 0.0", "drophead: 2"),
    "arch": ("transformer_disagree_tiny", "transformer_disagre"),
    "optimizer": ("adam", "adamm"),
    "no-data": ("data: bin, ", ""),
}


@pytest.fixture(scope="module")
def recipes(whole):
    """Write a valid recipe and broken ones into the folder."""
    (whole / "good.yaml").write_text(GOOD)
    for name, (right, wrong) in SPOILT.items():
        assert right in GOOD
        (whole / f"{name}.yaml").write_text(GOOD.replace(right, wrong, 1))
    (whole / "broken.yaml").write_text("task:\n  data: [\n")
    (whole / "list-of.yaml").write_text("- task\n")
    (whole / "flat.yaml").write_text("task: translation\n")


@pytest.mark.parametrize("row", OPTIONS + RECIPES + LAUNCHES, ids=lambda row: row.name)
def test_wrong_input_to_training_is_refused_in_one_line(row, world, recipes, monkeypatch, capsys):
    check(row, world, monkeypatch, capsys)
