"""The memory of bfloat16 on a CPU.

oneDNN keeps a compiled product for each shape that it has met, and batches of fairseq-fixed
0.12.3.1 come in hundreds of shapes: a small model's training holds a gigabyte for nothing.
"""

import os

#: How many matrix products oneDNN keeps compiled: the shapes of one update. Its default is 1,000.
ONEDNN_CACHED_SHAPES = "64"


for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(cache, ONEDNN_CACHED_SHAPES)
