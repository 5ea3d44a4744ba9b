"""A stand-in for fairseq's trainer at the start of a training."""

import argparse
from unittest import mock

import torch
from fairseq.dataclass.configs import CheckpointConfig


def training(folder, **checkpoint):
    """Return the options of checkpoints, and a trainer that finds no checkpoint."""
    trainer = mock.MagicMock(checkpoint_suffix="", is_data_parallel_master=True)
    trainer.load_checkpoint.return_value = None
    trainer.get_model.return_value = torch.nn.Identity()
    trainer.cfg.model = argparse.Namespace()
    trainer.cfg.optimization.max_update = trainer.cfg.optimization.max_epoch = 0
    trainer.cfg.optimization.update_freq = [1]
    trainer.cfg.dataset.max_tokens, trainer.cfg.dataset.batch_size = None, 8
    trainer.cfg.distributed_training.distributed_world_size = 1
    trainer.get_num_updates.return_value = 0
    trainer.get_lr.return_value, trainer.cfg.optimization.stop_min_lr = 0.1, -1.0
    epochs = mock.MagicMock(next_epoch_idx=3, iterations_in_epoch=0)
    epochs.__len__.return_value = 50
    trainer.get_train_iterator.return_value = epochs
    trainer.cfg.checkpoint = CheckpointConfig(save_dir=str(folder), **checkpoint)
    return trainer.cfg.checkpoint, trainer
