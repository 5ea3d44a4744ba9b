"""Compile the cascade's kernel for GPUs that are not here, and say what a thread of it takes.

    python -m tests.methods.coda.compiled 80 90      # compute capability 8.0 and 9.0

One line of JSON a kernel: dtype, heads, pass, bytes of shared memory of a program, registers of a
thread, and the bytes that do not fit into them. Needs Triton, whose wheel has NVIDIA's assembler.
"""

import inspect
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from diverse_mha.methods.coda import tiles

TYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
HEADS = (4, 8, 16)


def main(capabilities: list[int]) -> None:
    """Compile the passes of every dtype and number of heads, and print a line each."""
    for capability in capabilities:
        for dtype in TYPES:
            for heads in HEADS:
                for which in ("forward", "backward"):
                    found = compiled(capability, dtype, heads, which)
                    known = {"capability": capability, "dtype": TYPES[dtype], "heads": heads}
                    print(json.dumps({**known, "pass": which, **found}), flush=True)


def compiled(capability: int, dtype: torch.dtype, heads: int, which: str) -> dict[str, int]:
    """Compile a pass with a mask and noise; return what it takes."""
    kernel = getattr(tiles, f"_{which}")
    fixed = {**tiles.blocks(which, dtype, heads, 4 * heads), "MASKED": True, "NOISE": True}
    names = list(inspect.signature(kernel.fn).parameters)
    types = {name: _type(name, fixed, TYPES[dtype]) for name in names}
    aligned = [n for n, name in enumerate(names) if types[name].startswith("*")]
    source = ASTSource(
        kernel,
        signature=types,
        constexprs={(n,): fixed[name] for n, name in enumerate(names) if name in fixed},
        attrs={(n,): [["tt.divisibility", 16]] for n in aligned},  # as torch's memory is
    )
    target, options = GPUTarget("cuda", capability, 32), {"num_warps": tiles.WARPS}
    built = triton.compile(source, target=target, options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(built.asm["cubin"])
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        said = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    registers, outside = (int(re.search(rf"{word}:(\d+)", said)[1]) for word in ("REG", "STACK"))
    return {"shared": built.metadata.shared, "registers": registers, "outside": outside}


def _type(name: str, fixed: dict, dtype: str) -> str:
    """Return Triton's type of an argument."""
    floats = "logits previous result x_in x_out grad_in grad_out w1 b1 w2 b2 w3 b3".split()
    others = {"mask": "*u8", "sums": "*fp32", "slope": "fp32"}
    if name in fixed:
        return "constexpr"
    return f"*{dtype}" if name in floats else others.get(name, "i32")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
