"""Time and peak memory of SVCCA and linear CKA: ``python -m diverse_mha.benchmark.similarity``.

``stream`` is how ``diverse-mha analyze`` does it: moments of batch after batch, then both
measures for all pairs of heads. ``numpy`` is the textbook way with everything in memory: an SVD
of each head's centred (N, d) responses, CCA between the kept directions, and CKA from the full
N x N kernel matrices (``gram``) or, gentler, from the N x d ones (``features``). Every run is a
process of its own. Figures are refused if the ways do not agree.
"""

import math
import multiprocessing
import os
import sys
import time
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch

from diverse_mha.analysis.meters import cka_pairs, split_heads, svcca_pairs
from diverse_mha.analysis.moments import Moments
from diverse_mha.analysis.similarity import THRESHOLD
from diverse_mha.common.arguments import OneLineParser, add_number
from diverse_mha.common.errors import UserError, run_cli
from diverse_mha.common.machine import resident_bytes

WAYS = ("stream", "features", "gram")
BATCH = 4096  # positions a batch, as with --max-tokens 4000
BLAS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Measured(NamedTuple):
    """One run: its means over pairs, and what it cost."""

    cka: float
    svcca: float
    seconds: float  # without making the responses
    peak: float  # MiB, resident memory of the whole process at its highest


def batches(positions: int, heads: int, width: int):
    """Make responses in float32, batch by batch: heads that share part of what they say."""
    for start in range(0, positions, BATCH):
        generator = torch.Generator().manual_seed(start)
        size = min(BATCH, positions - start)
        shared = torch.randn(size, 1, width // heads, generator=generator)
        own = torch.randn(size, heads, width // heads, generator=generator)
        yield (own + 0.7 * shared + 1).flatten(1)


def stream(positions: int, heads: int, width: int) -> Measured:
    """Both measures of all pairs from moments."""
    moments, seconds = Moments(width), 0.0
    for batch in batches(positions, heads, width):
        start = time.perf_counter()
        moments.update(batch)
        seconds += time.perf_counter() - start
    start = time.perf_counter()
    blocks = split_heads(moments.scatter(), heads)
    cka = cka_pairs(blocks)["mean"]
    svcca = svcca_pairs(blocks, positions, THRESHOLD)["mean"]
    return Measured(cka, svcca, seconds + time.perf_counter() - start, peak_memory())


def full(positions: int, heads: int, width: int, gram: bool) -> Measured:
    """Both measures of all pairs in numpy with the full matrices, float64."""
    rows = torch.cat(list(batches(positions, heads, width))).numpy()
    start = time.perf_counter()
    parts = np.split(rows.astype(np.float64), heads, axis=1)
    parts = [part - part.mean(axis=0) for part in parts]
    kept = [_directions(part) for part in parts]
    pairs = list(combinations(range(heads), 2))
    svcca = [np.linalg.svd(kept[i].T @ kept[j], compute_uv=False).mean() for i, j in pairs]
    alignment = _gram_product if gram else _feature_product
    own = [alignment(part, part) for part in parts]
    cka = [alignment(parts[i], parts[j]) / math.sqrt(own[i] * own[j]) for i, j in pairs]
    seconds = time.perf_counter() - start
    return Measured(float(np.mean(cka)), float(np.mean(svcca)), seconds, peak_memory())


def _directions(part: np.ndarray) -> np.ndarray:
    u, s, _ = np.linalg.svd(part, full_matrices=False)
    share = np.cumsum(s**2) / np.sum(s**2)
    return u[:, : int((share < THRESHOLD).sum()) + 1]


def _gram_product(x: np.ndarray, y: np.ndarray) -> float:
    """tr(K L) of centred linear kernels, N x N."""
    return float(np.vdot(x @ x.T, y @ y.T))


def _feature_product(x: np.ndarray, y: np.ndarray) -> float:
    """The same as ||X^T Y||^2."""
    return float(np.square(x.T @ y).sum())


def peak_memory() -> float:
    """Highest resident memory of this process so far, in MiB."""
    return resident_bytes()[1] / 2**20


def measure(way: str, positions: int, heads: int, width: int, threads: int) -> Measured:
    """Run one way in a fresh process.

    Args:
        way: one of ``WAYS``.
        positions: N.
        heads: H.
        width: H * d.
        threads: of torch and of numpy's BLAS.
    """
    os.environ |= {name: str(threads) for name in BLAS}  # read when the process begins
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_here, (way, positions, heads, width, threads))


def _measure_here(way: str, positions: int, heads: int, width: int, threads: int) -> Measured:
    torch.set_num_threads(threads)
    first = 2 * width + 1  # what is loaded on first use is not timed
    if way == "stream":
        stream(first, heads, width)
        return stream(positions, heads, width)
    full(first, heads, width, gram=way == "gram")
    return full(positions, heads, width, gram=way == "gram")


def check(found: Measured, expected: Measured, positions: int) -> None:
    """Compare two ways of computing the same.

    Raises:
        UserError: if they differ by more than rounding.
    """
    for name in ("cka", "svcca"):
        a, b = getattr(found, name), getattr(expected, name)
        if not math.isclose(a, b, rel_tol=1e-8):
            raise UserError(f"{positions} positions: {name} is {a} streamed and {b} in numpy")


def main() -> int:
    """Print one row a run."""
    parser = OneLineParser(description=__doc__.split("\n")[0])
    add_number(parser, "heads", 8, "H", least=2)
    add_number(parser, "width", 512, "H * d")
    sizes = {"stream": [10_000, 1_000_000], "features": [10_000], "gram": [10_000]}
    for way, default in sizes.items():
        parser.add_argument(
            f"--{way}", type=int, nargs="*", default=default, metavar="N",
            help=f"positions to run it with (default: {' '.join(map(str, default))})",
        )  # fmt: skip
    add_number(parser, "threads", torch.get_num_threads(), "threads of torch and of the BLAS")
    args = parser.parse_args()
    if args.width % args.heads:
        parser.error(f"--heads {args.heads}: must divide --width {args.width}")
    every = {way: getattr(args, way) for way in WAYS}
    if min(min(counts, default=BATCH) for counts in every.values()) <= 2 * args.width:
        parser.error(f"give more positions than twice the width, {2 * args.width}")
    print(f"torch {torch.__version__}, numpy {np.__version__}, {args.threads} threads")
    print(f"{args.heads} heads, width {args.width}, SVCCA and linear CKA of all pairs")
    print(f"{'way':<10}{'positions':>11}{'seconds':>10}{'peak MiB':>10}{'times stream':>14}")
    streamed: dict[int, Measured] = {}
    shape = (args.heads, args.width, args.threads)
    for way, counts in every.items():
        for positions in counts:
            found = measure(way, positions, *shape)
            ratio = ""
            if way == "stream":
                streamed[positions] = found
            else:
                if positions not in streamed:
                    streamed[positions] = measure("stream", positions, *shape)
                check(streamed[positions], found, positions)
                ratio = f"{found.seconds / streamed[positions].seconds:.1f}"
            print(
                f"{way:<10}{positions:>11,}{found.seconds:>10.2f}{found.peak:>10.0f}{ratio:>14}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(run_cli(main))
