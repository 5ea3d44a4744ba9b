"""Calls that search much give the same results without the search."""

import inspect

from fairseq import options
from fairseq.dataclass import utils
from omegaconf import OmegaConf

from diverse_mha.fairseq_fixes import slow_calls

COMMAND = "DATA --arch transformer_iwslt_de_en --optimizer adam --lr 0.1 --max-tokens 9 --cpu"


def test_hydra_composes_the_same_command_line_without_reading_the_stack(monkeypatch):
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, COMMAND.split())

    def composed() -> str:
        return OmegaConf.to_yaml(utils.convert_namespace_to_omegaconf(args), sort_keys=True)

    with monkeypatch.context() as patched:
        patched.setattr(inspect, "stack", None)
        ours = composed()
    monkeypatch.setattr(utils, "initialize", utils.initialize.__wrapped__)
    assert ours == composed() and "transformer_iwslt_de_en" in ours
    assert utils.initialize.__module__ != slow_calls.__name__
