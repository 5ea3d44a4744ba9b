"""What the documents must keep up with."""

from dataclasses import fields
from pathlib import Path

from diverse_mha.criterions.config import DiversityConfig
from diverse_mha.criterions.label_smoothed import LabelSmoothedDiversityConfig
from diverse_mha.models.classifier_config import ClassifierConfig
from diverse_mha.models.config import SeamConfig
from diverse_mha.tasks.sentence_classification import SentenceClassificationConfig

OPTIONS = (Path(__file__).parents[1] / "docs" / "options.md").read_text()


def test_every_option_is_in_the_document_with_its_help():
    configs = (DiversityConfig, SeamConfig, ClassifierConfig, SentenceClassificationConfig)
    ours = {f.name: f for config in configs for f in fields(config)}
    ours |= {f.name: f for f in fields(LabelSmoothedDiversityConfig) if f.name == "token_loss"}
    ours.pop("_name")
    ours.pop("data")  # the folder, given by its place
    assert len(ours) >= 24
    for name, option in ours.items():
        assert f"| `--{name.replace('_', '-')}` |" in OPTIONS, name
        assert option.metadata["help"] in OPTIONS, name
