"""What the documents must keep up with."""

from dataclasses import fields
from pathlib import Path

from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.label_smoothed import LabelSmoothedDiversityConfig
from diverse_mha.models.config import SeamConfig

OPTIONS = (Path(__file__).parents[1] / "docs" / "options.md").read_text()


def test_every_option_is_in_the_document_with_its_help():
    ours = {f.name: f for config in (DiversityConfig, SeamConfig) for f in fields(config)}
    ours |= {f.name: f for f in fields(LabelSmoothedDiversityConfig) if f.name == "token_loss"}
    ours.pop("_name")
    assert len(ours) >= 18
    for name, option in ours.items():
        assert f"| `--{name.replace('_', '-')}` |" in OPTIONS, name
        assert option.metadata["help"] in OPTIONS, name
