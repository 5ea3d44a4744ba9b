"""A tiny classification task, batch and model for tests."""

from types import SimpleNamespace

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY

from tests.toy import toy_dictionary

LABELS = ["x", "y", "z"]
SMALL_ENCODER = {
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "dropout": 0.0,
}


def toy_task(sentences: int = 2, groups=("1", "2", "3")) -> SimpleNamespace:
    """Return a stand-in for a task with the attributes that model and criterion read."""
    return SimpleNamespace(
        source_dictionary=toy_dictionary(),
        target_dictionary=None,
        labels=LABELS,
        groups=list(groups),
        sentences=sentences,
        cfg=SimpleNamespace(accuracy_by="length" if groups else None),
    )


def build_classifier(
    arch: str = "sentence_classifier", sentences: int = 2, seed: int = 1, **options
):
    """Build a classifier as Hydra would; options override SMALL_ENCODER."""
    config = MODEL_DATACLASS_REGISTRY[arch](**{**SMALL_ENCODER, **options})
    torch.manual_seed(seed)
    return MODEL_REGISTRY[arch].build_model(config, toy_task(sentences))


def toy_batch(lengths=(5, 3, 4, 6), sentences: int = 2, seed: int = 3, extra_padding: int = 0):
    """Return a batch; the sentences of an example are in consecutive rows."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.full((len(lengths), max(lengths) + extra_padding), 1)
    for row, length in zip(tokens, lengths, strict=True):
        row[: length - 1] = torch.randint(4, 16, (length - 1,), generator=generator)
        row[length - 1] = 2
    examples = len(lengths) // sentences
    return {
        "id": torch.arange(examples),
        "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)},
        "target": torch.arange(examples) % len(LABELS),
        "group": (torch.arange(examples) + 1) % 3,
        "ntokens": sum(lengths),
        "nsentences": examples,
    }
