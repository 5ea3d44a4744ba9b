"""A step of a trainer in several processes, started by torchrun; saves the log and parameters."""

import sys

import torch

from diverse_mha.hub import HeadTerms
from tests.hub import test_trainer
from tests.hub.models import build

folder, model = sys.argv[1], build("llama")
with HeadTerms(model, **test_trainer.OPTIONS) as terms:
    trainer = test_trainer.run(model, test_trainer.rows("llama"), folder, terms, ddp_backend="gloo")
if trainer.is_world_process_zero():
    torch.save((trainer.state.log_history[0], model.state_dict()), f"{folder}/done")
