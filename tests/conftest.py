"""Settings of every test."""

import torch

# Tiny tensors: a second thread costs more than it brings, and the machine may be busy.
torch.set_num_threads(1)
