"""Tiny untrained models of transformers with a tokenizer, and text for them."""

import json

import sentencepiece
import torch
import transformers
from packaging.version import Version
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

#: The attention of T5 can be observed since transformers 5.15.
HAS_T5 = Version(transformers.__version__) >= Version("5.15")
WORDS = ["<pad>", "</s>", "<unk>", "<mask>", *"abcdefghij", *(f"@{x}" for x in "abcdefghij")]
SIDES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 16))
}
_IDS = {"pad_token_id": 0, "eos_token_id": 1, "vocab_size": len(WORDS)}
_SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 16, "max_position_embeddings": 64}  # fmt: skip
BUILDERS = {
    "marian": lambda: MarianMTModel(
        MarianConfig(d_model=16, decoder_start_token_id=0, max_position_embeddings=64,
                     **SIDES, **_IDS)
    ),
    "bart": lambda: BartForConditionalGeneration(
        BartConfig(d_model=16, decoder_start_token_id=1, bos_token_id=1,
                   forced_eos_token_id=None, max_position_embeddings=64, **SIDES, **_IDS)
    ),
    "t5": lambda: T5ForConditionalGeneration(
        T5Config(d_model=16, d_kv=4, num_heads=4, d_ff=16, num_layers=2,
                 decoder_start_token_id=0, **_IDS)
    ),
    "bert": lambda: BertForMaskedLM(BertConfig(**_SMALL, **_IDS)),
    "bert classifier": lambda: BertForSequenceClassification(
        BertConfig(num_labels=3, **_SMALL, **_IDS)
    ),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(n_embd=16, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, **_IDS)
    ),
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(num_key_value_heads=2, bos_token_id=1, **_SMALL, **_IDS)
    ),
}  # fmt: skip


def build(name: str, seed: int = 1):
    """Return a model in evaluation mode, with weights large enough for sharp attention."""
    torch.manual_seed(seed)
    model = BUILDERS[name]().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of words a to j, of which each may go on with @a to @j."""
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("@", "merged_with_next")]
    )
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        mask_token="<mask>",
    )  # fmt: skip


def save(name: str, folder, seed: int = 1):
    """Write a folder of transformers, and return its path."""
    build(name, seed).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def save_m2m100(folder, **languages):
    """Write a folder of M2M100 with its own tokenizer, and return its path."""
    folder.mkdir()
    lines = ["ein Haus am See .", "zwei Häuser am Wald .", "a house at the lake ."] * 20
    trainer, prefix = sentencepiece.SentencePieceTrainer, folder / "made"
    trainer.train(
        sentence_iterator=iter(lines), model_prefix=str(prefix), vocab_size=60, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    made = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    pieces = [made.id_to_piece(n) for n in range(3, made.get_piece_size())]
    words = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    vocabulary = folder / "vocab.json"
    vocabulary.write_text(json.dumps({word: n for n, word in enumerate(words)}))
    tokenizer = M2M100Tokenizer(str(vocabulary), f"{prefix}.model", **languages)
    torch.manual_seed(1)
    sizes = {"d_model": 16, "max_position_embeddings": 64, **SIDES}
    config = M2M100Config(vocab_size=len(words) + 108, **sizes)  # with 108 codes of languages
    M2M100ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def texts(folder, lines: int = 12):
    """Write sentences and translations, and return the paths of both files."""
    draw = torch.Generator().manual_seed(3)
    paths = folder / "text.src", folder / "text.tgt"
    for path, shift in zip(paths, (0, 3), strict=True):
        with open(path, "w", encoding="utf-8") as file:
            for number in range(lines):
                length = 4 + (number * 5 + shift) % 7
                letters = torch.randint(0, 10, (length,), generator=draw).tolist()
                marks = torch.rand(length, generator=draw).tolist()
                words = (
                    "@" * (mark < 0.3 and n > 0) + "abcdefghij"[letter]
                    for n, (letter, mark) in enumerate(zip(letters, marks, strict=True))
                )
                file.write(" ".join(words).replace(" @", "@") + "\n")  # fmt: skip
    return paths
