"""Disables cuDNN's attention, which takes part of a second for every new shape.

Batches of fairseq-fixed 0.12.3.1 come in hundreds of shapes.
"""

import os

import torch

if os.environ.get("DIVERSE_MHA_CUDNN_ATTENTION") != "1":
    torch.backends.cuda.enable_cudnn_sdp(False)
