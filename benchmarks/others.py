"""Other tools on the same work: ``python -m benchmarks.others``, training and translating.

Times are processor time on one thread: other programs on the machine bear less on it.
"""

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import torch
from fairseq.data.data_utils import infer_language_pair
from torch.nn.functional import cross_entropy

from benchmarks.batches import batches_for, stand_in_task
from benchmarks.rounds import run_rounds, turns
from benchmarks.shapes import SHAPES
from benchmarks.training import LABEL_SMOOTHING, Trainee
from benchmarks.variants import STOCK, VARIANTS
from diverse_mha.common.arguments import OneLineParser, add_number
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.machine import processor
from diverse_mha.common.processes import import_path
from diverse_mha.common.tables import markdown_table

SHAPE, PADDING = SHAPES["multi30k-small"], 1
TRANSFORMERS = """import sys, torch
from transformers import AutoTokenizer, FSMTForConditionalGeneration
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model, lines = FSMTForConditionalGeneration.from_pretrained(sys.argv[1]), sorted(sys.stdin, key=len)
for start in range(0, len(lines), 64):
    batch = tokenizer([line.strip() for line in lines[start : start + 64]], return_tensors="pt",
                      padding=True)
    tokenizer.batch_decode(model.generate(**batch, num_beams=5), skip_special_tokens=True)
"""


def build_parser() -> OneLineParser:
    """Declare the options."""
    parser = OneLineParser(
        prog="python -m benchmarks.others",
        description="Time this package beside other tools: training steps on random sentences at "
        "the shape of multi30k_small, and, with --translate, commands that translate a text with "
        "one model by beam 5. Processor time of one thread, interleaved rounds. Hugging Face needs "
        "transformers, JoeyNMT joeynmt; what is not installed is left out.",
        epilog="example:\n  python -m benchmarks.others --translate "
        "CHECKPOINT data/multi30k/bin data/multi30k/raw/test.de",
    )
    add_number(parser, "rounds", 20, "rounds of training steps")
    add_number(parser, "translations", 3, "rounds of translating")
    text = "a checkpoint without a method, its data folder, a text"
    parser.add_argument("--translate", nargs=3, metavar=("CHECKPOINT", "DATA", "TEXT"), help=text)
    return parser


def trainings(precision: str) -> dict[str, Callable[[dict], float]]:
    """Make a training step of each tool."""
    task, cpu = stand_in_task(SHAPE.vocabulary), torch.device("cpu")
    settings = {"device": cpu, "precision": precision, "seed": 1}

    def ours(name: str, optimizer: str) -> Callable:
        variant = VARIANTS[name]
        return Trainee(variant, SHAPE.options(), task, optimizer=optimizer, **settings).step

    steps = {"this package": ours("plain", "fused_adam"), "fairseq": ours(STOCK, "adam")}
    for name, module, build in (
        ("Hugging Face (Marian)", "transformers", _marian),
        ("JoeyNMT", "joeynmt", _joey),
    ):
        if importlib.util.find_spec(module):
            steps[name] = _loop(*build(), precision)
        else:
            print(f"{name} is left out: pip install {module}", file=sys.stderr)
    return steps


def _loop(model: torch.nn.Module, loss_of: Callable, precision: str) -> Callable:
    """A plain training loop; bfloat16 by autocast, as these tools do it."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step(batch: dict) -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(batch) / batch["ntokens"]
        loss.backward()
        optimizer.step()

    return step


def _marian() -> tuple[torch.nn.Module, Callable]:
    from transformers import MarianConfig, MarianMTModel

    sizes = {"layers": SHAPE.layers, "attention_heads": SHAPE.heads, "ffn_dim": SHAPE.ffn_embed_dim}
    sides = {f"{side}_{k}": n for side in ("encoder", "decoder") for k, n in sizes.items()}
    model = MarianMTModel(
        MarianConfig(
            vocab_size=SHAPE.vocabulary, d_model=SHAPE.embed_dim, dropout=SHAPE.dropout,
            activation_function="relu", scale_embedding=True, max_position_embeddings=512,
            pad_token_id=PADDING, eos_token_id=2, decoder_start_token_id=2, **sides,
        )
    )  # fmt: skip

    def loss(batch: dict) -> torch.Tensor:
        source, before = (batch["net_input"][k] for k in ("src_tokens", "prev_output_tokens"))
        logits = model(source, source != PADDING, decoder_input_ids=before).logits.flatten(0, 1)
        options = {"ignore_index": PADDING, "label_smoothing": LABEL_SMOOTHING, "reduction": "sum"}
        return cross_entropy(logits.float(), batch["target"].flatten(), **options)

    return model, loss


def _joey() -> tuple[torch.nn.Module, Callable]:
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    ids = {"unk_id": 0, "pad_id": PADDING, "bos_id": 2, "eos_id": 3}
    words = [f"w{number}" for number in range(SHAPE.vocabulary - len(special))]
    names = SimpleNamespace(**special, **ids, sep_token=None, sep_id=None, lang_tags=[])
    vocabulary = Vocabulary(words, names)
    side = {
        "type": "transformer", "num_layers": SHAPE.layers, "num_heads": SHAPE.heads,
        "hidden_size": SHAPE.embed_dim, "ff_size": SHAPE.ffn_embed_dim, "dropout": SHAPE.dropout,
        "embeddings": {"embedding_dim": SHAPE.embed_dim, "scale": True}, "layer_norm": "post",
    }  # fmt: skip
    tied = {"tied_embeddings": True, "tied_softmax": True}
    model = build_model({"encoder": side, "decoder": side, **tied}, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", LABEL_SMOOTHING)

    def loss(batch: dict) -> torch.Tensor:
        source, target = batch["net_input"]["src_tokens"], batch["target"]
        return model(
            return_type="loss", src=source, src_mask=(source != PADDING).unsqueeze(1),
            src_length=batch["net_input"]["src_lengths"], trg=target,
            trg_input=batch["net_input"]["prev_output_tokens"],
            trg_mask=(target != PADDING).unsqueeze(1),
        )[0]  # fmt: skip

    return model, loss


def _on_processor(step: Callable, batch: dict) -> tuple[float, None]:
    begun = time.process_time()
    step(batch)
    return time.process_time() - begun, None


def train(rounds: int) -> list[tuple[str, ...]]:
    """Return by tool the target tokens a second in float32 and in bfloat16."""
    rows, warm_up = {}, 3
    batches = batches_for(SHAPE, warm_up + rounds, SHAPE.batch_tokens, SHAPE.mean_length, 1)
    for precision in ("fp32", "bf16"):
        seconds = run_rounds(trainings(precision), batches, warm_up, _on_processor)
        for name, times in seconds.items():
            pairs = zip(batches[warm_up:], times, strict=True)
            rows.setdefault(name, []).append(_middle([b["ntokens"] / s for b, s in pairs]))
    return [(name, *cells) for name, cells in rows.items()]


def translate(checkpoint: str, data: str, text: str, rounds: int) -> list[tuple[str, ...]]:
    """Return by tool the seconds of a whole command, the model's loading among them."""
    cli = [sys.executable, "-W", "ignore", "-m"]
    ours, (source, target) = [*cli, "diverse_mha.cli"], infer_language_pair(data)
    with tempfile.TemporaryDirectory() as folder:
        forms = {"ctranslate2": f"{folder}/ct2", "transformers": f"{folder}/hub"}
        commands = {
            "this package, `translate`": [*ours, "translate", checkpoint, data, "--cpu"],
            "fairseq-interactive": [
                *cli, "fairseq_cli.interactive", data, "--path", f"{folder}/stock.pt", "--cpu",
                "--beam", "5", "--buffer-size", "1000", "--max-tokens", "4000", "--tokenizer",
                "moses", "--bpe", "subword_nmt", "--bpe-codes", f"{data}/../bpe/codes",
                "--source-lang", source, "--target-lang", target,
            ],
            "this package, exported to CTranslate2": [
                sys.executable, f"{folder}/ct2/translate.py", "--threads", "1"
            ],
            "this package, exported to Hugging Face": [
                sys.executable, "-c", TRANSFORMERS, forms["transformers"]
            ],
        }  # fmt: skip
        _run([*ours, "export", checkpoint, f"{folder}/stock.pt", "--format", "fairseq"])
        for form, place in forms.items():
            _run([*ours, "export", checkpoint, place, "--format", form, "--data", data])
        seconds = {name: [] for name in commands}
        for _, name in turns(list(commands), rounds):
            seconds[name].append(_run(commands[name], text))
    return [(name, _middle(times)) for name, times in seconds.items()]


def _run(command: Sequence[str], text: str = os.devnull) -> float:
    """Run a command and return its processor time."""
    # Without PYTHONSAFEPATH, for an exported script imports a module that lies beside it.
    environment = os.environ | {"PYTHONPATH": import_path()["PYTHONPATH"], "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(text, "rb") as given:
        done = subprocess.run(command, stdin=given, capture_output=True, env=environment)
    if done.returncode:
        raise UserError(f"{command[1:4]}: {done.stderr[-300:].decode(errors='replace')}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _middle(values: Sequence[float]) -> str:
    digits = 1 if max(values) < 100 else 0
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def main(arguments: Sequence[str]) -> int:
    """Measure and print a table each."""
    args = build_parser().parse_args(arguments)
    for path in args.translate or ():
        if not Path(path).exists():
            raise UserError(f"--translate {path}: no such file or folder; name another")
    torch.set_num_threads(1)
    print(f"{processor()}, one thread, median (range); torch {torch.__version__}\n")
    headings = ("training, target tokens a second", "float32", "bfloat16")
    print(markdown_table(headings, train(args.rounds)))
    if args.translate:
        rows = translate(*args.translate, args.translations)
        print(markdown_table(("translating", "seconds"), rows))
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
