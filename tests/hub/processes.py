"""Program that torchrun starts in several processes: one training step with terms.

The first process saves the log and the parameters. usage: python -m tests.hub.processes FOLDER
"""

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
