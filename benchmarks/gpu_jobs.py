"""What there is to do in a check of a GPU: five parts, each a list of jobs."""

from pathlib import Path
from typing import NamedTuple

from diverse_mha.common.machine import cores

TESTS = "tests/gpu"
ARCHITECTURES = (
    "transformer_disagree",
    "transformer_routing",
    "transformer_coda",
    "transformer_lm_disagree",
    "transformer_lm_routing",
    "transformer_lm_coda",
    "sentence_classifier",
)
RESUMED = "a_resumed_run_is_an_uninterrupted_one_bit_for_bit"
HALF = "half_precision_with_loss_scaling_to_the_end_of_an_epoch"
TWO = "two_processes_on_one_device"
# Of the methods, those that fit a GPU's memory together; stock is measured with each group.
GROUPS = (
    "plain,output,all-three,em-1-2,coda",
    "output-encoder,all-terms,all-terms-encoder,em-all-encoder,both",
    "hsic,orthogonality,drophead,plain-stock-loss,output-stock-loss",
)
LANGUAGE_MODEL_GROUPS = ("plain,output,all-three,em-1-2", "coda,hsic,orthogonality,drophead")
# The second and third are the largest that fit on a card of some 20 and of some 100 GiB.
TOKENS = (4096, 16384, 65536)

#: By name, most telling first: the title, and a share of the time beside the parts that follow.
PARTS = {
    "same": ("The results of the CPU", 5),
    "resume": ("Resumed trainings", 3),
    "speed": ("Speed beside fairseq", 8),
    "trainings": ("Half precision, and two processes", 3),
    "study": ("The study", 3),
    "table": ("What the study has found", 0.5),
}


class Job(NamedTuple):
    """One process of a part."""

    name: str  # in the report; unique in its part
    command: list[str]  # arguments of Python
    result: str = "text"  # how its result is read: ``tests``, ``json`` or ``text``
    # It is done in every run, for it tells of what other jobs left; its exit code, which says that
    # there is more to come, is no failure.
    always: bool = False
    goes_on: bool = False  # another try goes on where the last one stopped


def jobs_for(device: str, out: Path, data: Path | None = None) -> dict[str, list[Job]]:
    """List everything that is to be done, by part; ``data`` has the study's corpus."""
    tiny = device == "cpu"
    same = [Job("doctor", ["-m", "diverse_mha.cli", "doctor"])]
    same += [_tests(name, f"test_{name}.py") for name in ("operations", "models", "steps")]
    # On a CPU the others would take minutes and show nothing more.
    chosen = [name for name in ARCHITECTURES if not tiny or name == "transformer_coda"]

    def trainings(*tests: str) -> list[Job]:
        file = "test_trainings.py::test_"
        return [_tests(name, *(f"{file}{test}[{name}]" for test in tests)) for name in chosen]

    return {
        "same": same,
        "resume": trainings(RESUMED),
        "speed": _speed(device, tiny),
        "trainings": trainings(HALF, TWO),
        "study": [_study(out, tiny, data)],
        "table": [_study(out, tiny, data, collect=True)],
    }


def _tests(name: str, *chosen: str) -> Job:
    files = [f"{TESTS}/{words}" for words in chosen]
    return Job(name, ["-m", "pytest", "-q", "-m", "gpu", *files], "tests")


def _speed(device: str, tiny: bool) -> list[Job]:
    jobs = {}

    def add(name: str, module: str, options: str) -> None:
        command = ["-m", f"benchmarks{module}", *options.split()]
        jobs.setdefault(name, Job(name, [*command, "--device", device], "json"))

    def training(shape: str, precision: str, tokens: int, group: str) -> None:
        options = f"--shape {shape} --precision {precision} --batch-tokens {tokens}"
        options += f" --variants {group} --rounds {2 if tiny else 20} --warm-up {1 if tiny else 5}"
        add(f"{shape} {precision} {tokens} {group}", "", options)

    def decoding(shape: str, precision: str) -> None:
        sizes = "--sentences 2 --length 4 --rounds 2" if tiny else "--sentences 64"
        options = f"--shape {shape} --precision {precision} {sizes}"
        add(f"search {shape} {precision}", ".decoding", options)

    if tiny:
        training("tiny", "fp32", 200, "output,coda")
        training("tiny", "bf16", 200, "plain")
        decoding("tiny", "bf16")
    else:
        training("base", "bf16", TOKENS[0], GROUPS[0])
        decoding("base", "fp16")
        training("base", "fp16", TOKENS[0], GROUPS[0])
        shapes = ("iwslt", "base", "big", "wiki103")
        for number in range(len(GROUPS)):
            for tokens in TOKENS:
                for precision in ("bf16", "fp16"):
                    for shape in shapes:
                        groups = LANGUAGE_MODEL_GROUPS if shape == "wiki103" else GROUPS
                        if number < len(groups):
                            training(shape, precision, tokens, groups[number])
        for shape in shapes[:3]:
            decoding(shape, "bf16")
            decoding(shape, "fp16")
    return list(jobs.values())


def _study(out: Path, tiny: bool, data: Path | None, collect: bool = False) -> Job:
    scale = ["smoke", "--updates", "2", "--rows", "baseline"] if tiny else ["small"]
    side_by_side = 1 if tiny else max(1, min(8, cores() // 2))
    how = ["--collect"] if collect else ["--jobs", str(side_by_side)]
    command = ["-m", "diverse_mha.cli", "reproduce", "study", "translation", "--scale", *scale]
    command += [*how, "--out", str(out / "study")]
    if data is not None and not tiny:
        command += ["--data", str(data)]
    return Job("translation", command, always=collect, goes_on=True)
