"""Options of any kind in a checkpoint are never run as code."""

import ast
import re
import sys
import warnings
from pathlib import Path

import fairseq
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel
from fairseq.tasks import TASK_REGISTRY

from diverse_mha.common.errors import UserError
from diverse_mha.common.files import ROOT
from diverse_mha.common.options import flag
from diverse_mha.fairseq_fixes import checkpoint_options
from tests.security.expressions import (
    CANARY,
    EXPRESSION,
    Watch,
    attempt,
    fields,
    healthy,
    poisoned,
)


@pytest.fixture(scope="session")
def watch():
    return Watch()


@pytest.fixture
def folders(data, pairs, tmp_path, monkeypatch):
    """Data folders by task. The current folder is empty."""
    monkeypatch.chdir(tmp_path)
    texts = str(data)
    return {"translation": texts, "language_modeling": texts, "sentence_classification": str(pairs)}


@pytest.fixture(scope="session")
def checkpoint_of():
    """Function that returns an untrained checkpoint and its options, cached by name."""
    made = {}

    def make(group, name, folders):
        if (group, name) not in made:
            made[group, name] = healthy(group, name, folders)
        return made[group, name]

    return make


def build(state, data):
    """Build model, task and criterion from a checkpoint, as fairseq's commands do."""
    torch.save(state, "poisoned.pt")
    load = checkpoint_utils.load_model_ensemble_and_task
    _, cfg, task = load(["poisoned.pt"], {"data": data})
    task.build_criterion(cfg.criterion)


def build_if_it_fits(state, data):
    """Build a model; its parameters may not fit, because a text counts as true for a flag."""
    try:
        build(state, data)
    except RuntimeError as error:
        if "loading state_dict" not in str(error):
            raise


def data_of(state, folders):
    task = state["cfg"]["task"]["_name"]
    return folders["sentence_classification" if "sentence" in task else "translation"]


def test_the_watch_notices_code_that_runs(watch, tmp_path, monkeypatch):
    """If the watch noticed nothing, the tests below would prove nothing."""
    monkeypatch.chdir(tmp_path)
    for expression in (EXPRESSION, f"open('{CANARY}', 'w')", f"'{CANARY}'"):
        with pytest.raises(AssertionError), watch.on():
            eval(expression)  # from the list above
    assert (tmp_path / CANARY).exists()


def test_eval_in_every_module_of_fairseq_reads_only_literals():
    root = Path(fairseq.__file__).parent
    found = 0
    for path in root.rglob("*.py"):
        text = path.read_text()
        if "eval(" not in text and "exec(" not in text:
            continue
        with warnings.catch_warnings(action="ignore"):  # invalid escapes in fairseq's strings
            calls = [n.func for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        if not any(isinstance(f, ast.Name) and f.id in ("eval", "exec") for f in calls):
            continue
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        if module.startswith("fairseq.examples."):  # no allowed class is defined there
            continue
        assert sys.modules[module].eval is checkpoint_options.evaluate_option, module
        assert not any(isinstance(f, ast.Name) and f.id == "exec" for f in calls), module
        found += 1
    assert found > 15


@pytest.mark.parametrize(
    "group,registry",
    [("model", ARCH_MODEL_REGISTRY), ("task", TASK_REGISTRY), ("criterion", CRITERION_REGISTRY)],
)
def test_a_checkpoint_may_name_only_allowed_classes(group, registry):
    """Allowed are all classes of this package, and those of fairseq in ``ALLOWED``."""
    allowed = {name for name in registry if checkpoint_options._registered(group, name)}
    ours = {name for name in registry if registry[name].__module__.startswith("diverse_mha")}
    assert ours and ours <= allowed
    assert set(checkpoint_options.ALLOWED[group]) <= allowed
    refused = set(registry) - allowed
    assert len(refused) > 20
    for name in refused:
        state = {"cfg": {group: {"_name": name}}}
        with pytest.raises(UserError, match=rf"^a\.pt: its option {group}\._name '{name}': a "):
            checkpoint_options.check_options("a.pt", state["cfg"])


@pytest.mark.parametrize("name", ["x", ["transformer"], 3, "${oc.env:HOME}"])
def test_unknown_names_are_refused(name):
    for cfg in ({"model": {"_name": name}}, {"task": {"_name": "translation", "task": name}}):
        with pytest.raises(UserError, match="^a.pt: its option .*refused$"):
            checkpoint_options.check_options("a.pt", cfg)


def test_a_class_of_a_user_dir_may_be_named(monkeypatch):
    class Own(CRITERION_REGISTRY["cross_entropy"]):
        """A criterion that another package registers."""

    monkeypatch.setitem(CRITERION_REGISTRY, "own", Own)
    checkpoint_options.check_options("a.pt", {"criterion": {"_name": "own"}})
    Own.__module__ = "fairseq.criterions.own"
    with pytest.raises(UserError, match="'own'"):
        checkpoint_options.check_options("a.pt", {"criterion": {"_name": "own"}})


def test_interpolations_are_kept_and_resolvers_refused():
    cfg = {"task": {"_name": "translation", "data": "${common.seed}"}}
    checkpoint_options.check_options("a.pt", cfg)
    for text in ("${oc.env:HOME}", "${${common.seed}:x}", "a ${oc.decode:'1'}"):
        cfg["task"]["data"] = text
        with pytest.raises(UserError, match="a.pt: its option task.data .* calls a resolver"):
            checkpoint_options.check_options("a.pt", cfg)


@pytest.mark.parametrize(
    "group,name,option,value",
    [
        ("model", "transformer_disagree", "adaptive_softmax_cutoff", EXPRESSION),
        ("model", "transformer_disagree", "dropout", "much"),
        ("criterion", "cross_entropy_with_diversity", "hsic_samples", "much"),
        *(
            pytest.param("model", *rest, marks=pytest.mark.integration)
            for rest in (
                ("transformer", "adaptive_softmax_cutoff", [EXPRESSION]),
                ("transformer_lm_disagree", "adaptive_input_cutoff", EXPRESSION),
                ("transformer_lm", "character_filters", EXPRESSION),
                ("lstm", "decoder_attention", EXPRESSION),
            )
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_values_are_reported_in_one_line(
    group, name, option, value, folders, watch, checkpoint_of
):
    state, _ = checkpoint_of(group, name, folders)
    switches = {
        "adaptive_input_cutoff": "adaptive_input",
        "character_filters": "character_embeddings",
    }
    if option in switches:
        state = poisoned(state, None, group, [switches[option]], True)
    state = poisoned(state, None, group, [option], value)
    line = attempt(lambda: build(state, data_of(state, folders)), watch)
    # Our check and OmegaConf name the option; fairseq quotes the text.
    named = (f"{flag(option)} ", f"its option {option} ", f"its option {group}.{option} ", CANARY)
    assert line.startswith("poisoned.pt: ") and any(part in line for part in named)


def test_an_error_names_the_right_checkpoint_of_an_ensemble(folders, checkpoint_of):
    state, _ = checkpoint_of("model", "transformer_disagree", folders)
    torch.save(poisoned(state, None, "model", ["dropout"], "much"), "second.pt")
    state, _ = checkpoint_of("model", "transformer_disagree", folders)
    torch.save(state, "first.pt")
    load, data = checkpoint_utils.load_model_ensemble_and_task, data_of(state, folders)
    with pytest.raises(UserError, match=r"^second\.pt: its option dropout "):
        load(["first.pt", "second.pt"], {"data": data})
    ensemble, cfg, task = load(["first.pt", "first.pt"], {"data": data})
    assert len(ensemble) == 2 and task.build_criterion(cfg.criterion)


def test_names_that_lead_outside_the_data_folder_are_refused():
    cfg = {"task": {"_name": "translation", "source_lang": "../en"}}
    with pytest.raises(UserError, match=r"^a.pt: its option task.source_lang '../en': .*refused$"):
        checkpoint_options.check_options("a.pt", cfg)


@pytest.mark.parametrize("option", ["encoder_embed_path", "decoder_embed_path"])
def test_pretrained_word_vectors_are_not_read(option, folders, watch, checkpoint_of):
    state, _ = checkpoint_of("model", "transformer", folders)
    state = poisoned(state, None, "model", [option], CANARY)
    assert attempt(lambda: build(state, data_of(state, folders)), watch) == ""


def test_the_hub_interface_opens_only_subword_files_of_its_caller(folders, watch, checkpoint_of):
    state, _ = checkpoint_of("model", "transformer", folders)
    bpe = {"_name": "subword_nmt", "bpe_codes": CANARY}
    torch.save({**state, "cfg": {**state["cfg"], "bpe": bpe}}, "hub.pt")

    def load(**options):
        data = folders["translation"]
        return TransformerModel.from_pretrained(".", "hub.pt", data, **options)

    assert attempt(load, watch).startswith("--bpe-codes is missing (in Python: bpe_codes=...)")
    with pytest.raises(EnvironmentError, match="own-codes"):  # the caller's own path is opened
        load(bpe_codes="own-codes")


#: An option of each kind, and the form of the checkpoint's options.
KINDS = [
    ("model", "transformer", "adaptive_softmax_cutoff", "cfg"),  # a list, evaluated by fairseq
    ("model", "transformer", "encoder_layers_to_keep", "args"),
    ("model", "transformer", "dropout", "args"),  # a number
    ("model", "transformer", "share_all_embeddings", "cfg"),  # a flag
    ("model", "transformer", "activation_fn", "args"),  # the name of a function
    ("model", "transformer_disagree", "encoder_attention_heads", "cfg"),  # a whole number
    ("model", "transformer_coda", "logits", "cfg"),  # a choice
    ("model", "lstm", "decoder_attention", "args"),  # a flag written as text
    ("model", "lightconv", "encoder_kernel_size_list", "args"),  # a list of numbers
    ("model", "transformer_lm", "character_filters", "cfg"),  # a list of pairs
    ("task", "translation", "source_lang", "cfg"),  # a part of file names
    ("task", "translation", "eval_bleu_args", "cfg"),  # JSON
    ("task", "language_modeling", "sample_break_mode", "args"),
    ("criterion", "cross_entropy_with_diversity", "hsic_samples", "cfg"),
    ("bpe", "subword_nmt", "bpe_codes", "args"),  # a file
]


@pytest.mark.integration
@pytest.mark.filterwarnings(r"ignore:\s*'\w+' is validated against ConfigStore")
@pytest.mark.parametrize("group,name,option,form", KINDS, ids=lambda value: value)
def test_options_of_every_kind_are_refused_or_unused(
    group, name, option, form, folders, watch, checkpoint_of
):
    """An expression as text or in a list is refused in one line or unused, but never run."""
    state, args = checkpoint_of(group, name, folders)
    assert option in fields(group, name)
    data = data_of(state, folders)
    for value in (EXPRESSION, [EXPRESSION]):
        bad = poisoned(state, args if form == "args" else None, group, [option], value)
        line = attempt(lambda bad=bad: build_if_it_fits(bad, data), watch)
        if line:
            # Criterions have their own messages.
            assert line.startswith("poisoned.pt: ") or group == "criterion", line


@pytest.mark.parametrize("command", ["generate", "interactive", "eval_lm", "validate"])
def test_the_page_names_the_commands_that_evaluate_model_overrides(command):
    source = (Path(fairseq.__file__).parents[1] / f"fairseq_cli/{command}.py").read_text()
    evaluates = bool(re.search(r"[^_]eval\(.*model_overrides", source))
    page = (ROOT / "docs/reliability.md").read_text()
    (sentence,) = re.findall(r"only (.*) evaluate `--model-overrides`", page)
    assert (f"fairseq-{command.replace('_', '-')}" in sentence) == evaluates
