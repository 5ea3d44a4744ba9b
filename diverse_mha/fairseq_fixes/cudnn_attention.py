"""cuDNN's attention is left out of torch's choice.

It builds a plan for every new shape, which takes a good part of a second, and batches of
fairseq-fixed 0.12.3.1 come in hundreds of shapes.
"""

import os

import torch

#: Set to 1, it leaves cuDNN's attention in.
VARIABLE = "DIVERSE_MHA_CUDNN_ATTENTION"

if os.environ.get(VARIABLE) != "1":
    torch.backends.cuda.enable_cudnn_sdp(False)
