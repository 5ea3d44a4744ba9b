"""Some hundred updates of CODA by fairseq's own command, in half precision."""

import json
import logging
import subprocess
import sys

from benchmarks.gpu.findings import put
from benchmarks.gpu.plan import Setting

OPTIONS = """--user-dir diverse_mha --task exact_translation --arch transformer_coda_small
--criterion label_smoothed_cross_entropy_with_diversity --label-smoothing 0.1
--share-all-embeddings --optimizer fused_adam --adam-betas (0.9,0.98) --lr 0.002
--lr-scheduler inverse_sqrt --warmup-updates 100 --max-tokens 4096 --num-workers 0
--distributed-world-size 1 --no-save --disable-validation --log-format json"""


class _Log(logging.Handler):
    """Turns fairseq's lines of statistics into findings."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "train_inner":  # fairseq renames its logger for every kind of line
            return
        line = json.loads(record.getMessage())
        shown = ("loss", "wps", "gnorm", "loss_scale", "gb_free", "train_wall")
        values = {key: line[key] for key in shown if key in line}
        put("fairseq-train", f"update {line['num_updates']}", **values)


def train(setting: Setting) -> None:
    """Train on the corpus, or where there is none on the one that comes with the project."""
    data, updates = setting.data, 6 if setting.small else 300
    if not any(data.glob("dict.*.txt")):
        folder = data.parents[1] / "demo"
        command = ["bash", "data-prep/prepare-demo.sh", "--out", str(folder)]
        subprocess.run(command, check=True)
        data = folder / "bin"
    more = f"--max-update {updates} --log-interval {updates // 6} " + (
        "--cpu --max-tokens 500" if setting.small else "--fp16"
    )
    sys.argv = ["fairseq-train", str(data), *OPTIONS.split(), *more.split()]
    logging.getLogger("fairseq.logging.progress_bar").addHandler(_Log())
    from fairseq_cli.train import cli_main

    cli_main()
