"""Limits oneDNN's cache of compiled shapes, which takes a gigabyte of a bfloat16 training on a CPU.

Batches of fairseq-fixed 0.12.3.1 come in hundreds of shapes.
"""

import os

for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(cache, "64")  # the shapes of one update; the default is 1,000
