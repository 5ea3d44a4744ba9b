"""Tiny models of the transformers library, and batches with padding."""

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
)

PAD = 1


def marian(dropout: float = 0.0, heads: int = 4, **options):
    """Return a Marian model: encoder and decoder with cross-attention."""
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", heads), ("ffn_dim", 16))
    }
    config = MarianConfig(
        vocab_size=30, d_model=16, pad_token_id=PAD, decoder_start_token_id=PAD, dropout=dropout,
        attention_dropout=dropout, activation_dropout=dropout, max_position_embeddings=32,
        **sizes, **options,
    )  # fmt: skip
    return MarianMTModel(config)


def bert(dropout: float = 0.0, heads: int = 4, **options):
    """Return a BERT model: an encoder."""
    config = BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=heads,
        intermediate_size=16, max_position_embeddings=32, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout, pad_token_id=PAD, **options,
    )  # fmt: skip
    return BertForMaskedLM(config)


def llama(dropout: float = 0.0, heads: int = 4, **options):
    """Return a Llama model: a decoder with half as many key-value heads as query heads."""
    config = LlamaConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=max(heads // 2, 1), intermediate_size=16, max_position_embeddings=32,
        attention_dropout=dropout, pad_token_id=PAD, **options,
    )  # fmt: skip
    return LlamaForCausalLM(config)


BUILDERS = {"marian": marian, "bert": bert, "llama": llama}
COMPONENTS = {
    "marian": ("encoder", "cross", "decoder"),
    "bert": ("encoder",),
    "llama": ("decoder",),
}


def build(name: str, seed: int = 1, **options):
    """Build a model in float64 and training mode."""
    torch.manual_seed(seed)
    return BUILDERS[name](**options).double().train()


def batch(name: str, seed: int = 2, sentences: int = 3):
    """Return a batch whose second sentence is padded in source and target."""
    draw = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 30, (sentences, 7), generator=draw)
    real = torch.ones_like(source)
    real[1, 5:] = 0
    source = source.masked_fill(real == 0, PAD)
    if name != "marian":
        labels = source.masked_fill(real == 0, -100)
    else:
        labels = torch.randint(3, 30, (sentences, 6), generator=draw)
        labels[1, 4:] = -100
    return {"input_ids": source, "attention_mask": real, "labels": labels}
