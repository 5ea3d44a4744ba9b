"""A GPU that computes nothing, for a torch that was built without one.

Tensors have a shape, a dtype and the device ``cuda:0``, and no data (torch's ``FakeTensorMode``):
enough to see whether a step mixes devices or dtypes, where the host would wait for the GPU, and
how many operations it would start there. Autograd wants a device to be there, which ``card.cpp``
registers; it must be loaded before torch is imported.
"""

import ctypes
import importlib.util
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

if "torch" in sys.modules:
    raise ImportError("tests.gpu.pretend must be imported before torch")


def _insert_card() -> None:
    torch = Path(importlib.util.find_spec("torch").origin).parent
    if runpy.run_path(f"{torch}/version.py")["cuda"]:
        raise ImportError("this torch has CUDA, beside which no other card can be registered")
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/card.so"
        source = str(Path(__file__).with_name("card.cpp"))
        command = ["g++", "-std=c++20", "-shared", "-fPIC", f"-I{torch}/include", source]
        command += ["-o", library, f"-L{torch}/lib", "-lc10", "-ltorch_cpu"]
        subprocess.run(command, check=True)
        for name in (f"{torch}/lib/libc10.so", f"{torch}/lib/libtorch_cpu.so", library):
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)


_insert_card()
