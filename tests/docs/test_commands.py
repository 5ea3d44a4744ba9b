"""Documented commands run in a fresh clone, in the order of their page."""

import math
import re
import shlex

import pytest

from diverse_mha.recipes.machine import share_batches
from diverse_mha.recipes.recipe import read_recipe
from diverse_mha.training import train
from tests.docs.blocks import ROOT, commands, pages
from tests.docs.options import spans, unknown

PAGES = pages()
# Reports of results. Their commands may write outside runs/ and data/.
REPORTS = ("docs/performance.md", "results/details.md")


def tier(page: str):
    """Return the marks of a page's test: integration for README, system for other pages."""
    of_readme = pytest.mark.integration, pytest.mark.long
    return of_readme if page == "README.md" else pytest.mark.system


@pytest.mark.parametrize("page", [pytest.param(page, marks=tier(page)) for page in PAGES])
def test_documented_commands_of_a_page_succeed(page, world, tmp_path):
    run = [command for command in commands(page) if not command.not_run]
    clone = world.clone(tmp_path / "clone", page)
    complaints = list(filter(None, map(clone.complaint, run)))
    assert not complaints, f"{len(complaints)} of {len(run)}:\n\n" + "\n\n".join(complaints)
    assert page in REPORTS or not clone.untracked(), "commands write below runs/ or data/"


MARKED = [command for page in PAGES for command in commands(page) if command.not_run]


@pytest.mark.parametrize("command", MARKED, ids=lambda command: command.place)
def test_commands_that_tests_cannot_run_use_existing_recipes_and_settings(command):
    words = shlex.split(command.text.replace("\\\n", ""))
    words = [inner for word in words for inner in (shlex.split(word) if " " in word else [word])]
    words = [word.replace("${model}", "coda").replace("$model", "coda") for word in words]
    if "scripts/train.sh" in words:
        train.parse(words[words.index("scripts/train.sh") + 1 :])
        return
    if "scripts/run.sh" in words:
        name, *rest = words[words.index("scripts/run.sh") + 1 :]
        settings = [word for word in rest if re.match(r"[\w.]+=", word)]
        assert read_recipe(name, settings).get("task._name"), command.place
        return
    scripts = [word for word in words if word.startswith(("scripts/", "data-prep/"))]
    assert all((ROOT / script).is_file() for script in scripts)  # bash has checked the syntax


def test_documented_trainings_on_several_gpus_keep_the_batch_of_the_recipe():
    parts = r"(?:--nodes|--nnodes|--ntasks-per-node|--nproc_per_node|--processes) (\d+)"
    found = 0
    for command in MARKED:
        start, _, rest = command.text.replace("\\\n", "").partition("--config ")
        if rest and (counts := [int(number) for number in re.findall(parts, start)]):
            job = train.parse(["--config", *shlex.split(rest)])
            _, note = share_batches(job.recipe, math.prod(counts))
            assert "instead of" not in note, f"{command.place}: {note}"
            found += 1
    assert found >= 3


@pytest.mark.parametrize("page", PAGES)
def test_no_command_needs_bash_to_split_a_variable(page):
    """zsh, the shell of macOS, does not split an unquoted variable; both have arrays."""
    texts = [command.text for command in commands(page)]
    several = [name for text in texts for name in re.findall(r'^(\w+)="[^"]*\s[^"]*"$', text)]
    found = [text for text in texts for name in several if re.search(rf"\$\{{?{name}\b", text)]
    assert not found, f'write NAME=(...) and "${{NAME[@]}}": {found}'


#: All pages, also those without commands, except the changelog, which names removed options.
EVERY_PAGE = ["README.md", "CONTRIBUTING.md"] + [
    str(path.relative_to(ROOT))
    for folder in ("docs", "results", "results/plans")
    for path in ROOT.glob(f"{folder}/*.md")
]


@pytest.mark.parametrize("page", sorted(EVERY_PAGE))
def test_no_block_of_commands_has_a_comment(page):
    """An interactive zsh, the shell of macOS, takes "#" and the words behind it for arguments."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", (ROOT / page).read_text(), re.M | re.S)
    assert not re.findall(r"^(?:.*\s)?#.*$", "".join(blocks), re.M)


@pytest.mark.parametrize("page", sorted(EVERY_PAGE))
def test_every_option_on_a_page_exists_in_its_command(page):
    texts = [(f"{page}:{one.line}", one.text) for one in commands(page)]
    texts += [(page, span) for span in spans(page)]
    found = [f"{place}: {option}" for place, text in texts for option in unknown(text)]
    assert not found


def test_options_that_do_not_exist_are_detected():
    text = (
        "diverse-mha evaluate RUN --beam 4 \\\n  --no-such A && bash scripts/reproduce.sh --gpus 2"
    )
    assert list(unknown(text)) == ["evaluate: --no-such", "reproduce: --gpus"]


def test_commands_are_found_and_most_are_run():
    everything = [command for page in PAGES for command in commands(page)]
    assert len(PAGES) > 10 and len(everything) > 100 and len(MARKED) < len(everything) / 4
