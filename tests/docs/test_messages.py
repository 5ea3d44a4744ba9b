"""Every option in the package's messages exists in a command."""

import ast
from pathlib import Path

from diverse_mha import cli
from diverse_mha.common.files import ROOT
from tests.docs.options import OPTION, known

#: Options of other programs that messages name: pip, torchrun, fairseq-preprocess and fairseq's
#: optimizers.
OTHERS = {
    *"--no-build-isolation --no-cache-dir --no-deps --force-reinstall".split(),
    "--nproc-per-node",
    *"--only-source --destdir --workers --joined-dictionary --help --version".split(),
}
SOURCES = sorted((ROOT / "diverse_mha").rglob("*.py"))
#: Folders whose errors are printed on the command line, for a recipe and in Python.
SHARED = "attention methods models criterions tasks optim fairseq_fixes hub".split()
#: Calls whose texts are help texts.
DECLARING = {"option", "weight_option", "components_option", "Seam"}


def fairseqs() -> set[str]:
    """Return the options of fairseq's commands, including those of this package."""
    from fairseq import options
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
    from fairseq.registry import REGISTRIES
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    import diverse_mha

    diverse_mha.register()
    assert ARCH_MODEL_REGISTRY
    parsers = (
        options.get_training_parser("exact_translation"),
        options.get_generation_parser(default_task="exact_translation"),
        options.get_eval_lm_parser("exact_language_modeling"),
    )
    found = {word for parser in parsers for word in parser._option_string_actions}
    kinds = [MODEL_DATACLASS_REGISTRY, TASK_DATACLASS_REGISTRY]
    kinds += [entry["dataclass_registry"] for entry in REGISTRIES.values()]
    for kind in kinds:
        for config in kind.values():
            names = getattr(config, "__dataclass_fields__", {})
            found |= {"--" + name.replace("_", "-") for name in names}
    return found


def messages(path: Path) -> str:
    """Return the literal text of the errors and log lines of a module."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Option":
            if isinstance(name := node.args[0], ast.Constant):
                found.append("--" + name.value.replace("_", "-"))
        if isinstance(node, ast.Raise) or (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") in ("info", "warning", "error")
        ):
            texts = (part for part in ast.walk(node) if isinstance(part, ast.Constant))
            found += [text.value for text in texts if isinstance(text.value, str)]
    return "\n".join(found)


def test_every_option_in_a_message_exists():
    own = set().union(*(known(name) for name in cli.COMMANDS)) | fairseqs() | OTHERS
    own |= {one for path in ROOT.glob("*/*.sh") for one in OPTION.findall(path.read_text())}
    named = {(path, one) for path in SOURCES for one in OPTION.findall(messages(path))}
    assert len(named) > 40
    assert sorted(f"{path.name}: {one}" for path, one in named if one not in own) == []


def test_an_option_that_does_not_exist_is_detected(tmp_path):
    (tmp_path / "x.py").write_text(
        'def f():\n    raise ValueError(f"{1}; give --moses-language", Option("no_such"))'
    )
    found = OPTION.findall(messages(tmp_path / "x.py"))
    assert sorted(found) == ["--moses-language", "--no-such"]


def texts(source: str) -> list[str]:
    """Return the literal texts of a module without docstrings and help texts."""
    tree = ast.parse(source)
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(node.value)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in DECLARING:
            left_out |= {*ast.walk(node)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [x.value for x in found if isinstance(x.value, str) and x not in left_out]


def test_errors_that_a_recipe_meets_spell_no_option_themselves():
    """They name it by ``Option``, and the front end spells it."""
    others = OTHERS | {"--like", "--srcdict", "--tgtdict"}  # of prepare-own, fairseq-preprocess
    files = [path for path in SOURCES if path.relative_to(ROOT).parts[1] in SHARED]
    found = {(path.name, text) for path in files for text in texts(path.read_text())}
    spelt = [(name, text) for name, text in found if {*OPTION.findall(text)} - others]
    assert len(files) > 80 and spelt == [("guards.py", "--arch")]  # read in a command line
    assert texts('def f():\n    """--x"""\n    raise E(f"--x {1}; no")') == ["--x ", "; no"]
