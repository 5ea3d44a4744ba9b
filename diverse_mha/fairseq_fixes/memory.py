"""The memory of bfloat16 on a CPU.

oneDNN keeps a compiled product for each shape that it has met, and batches of fairseq-fixed
0.12.3.1 come in hundreds of shapes: a small model's training holds a gigabyte for nothing.
"""

import os

#: How many matrix products oneDNN keeps compiled, in bfloat16 on the CPU one for each shape it has
#: met: those of one update. Of a thousand, its default, a small model's training holds a gigabyte
#: for nothing: fairseq's batches come in hundreds of shapes, some forty of them new in an update.
ONEDNN_CACHED_SHAPES = "64"


for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(cache, ONEDNN_CACHED_SHAPES)
