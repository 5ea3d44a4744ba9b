"""Reference values of terms, from the output of eager attention and hooks on projections."""

import copy

import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from diverse_mha.methods.cka import cka
from diverse_mha.methods.disagreement import (
    mean_pairwise_cosine,
    output_disagreement,
    position_disagreement,
    subspace_disagreement,
)
from diverse_mha.methods.hsic import hsic
from diverse_mha.methods.orthogonality import srip

_NAMES = {  # kind of model: its attention modules by component
    "marian": {"encoder": "encoder.layers.{}.self_attn", "cross": "decoder.layers.{}.encoder_attn",
               "decoder": "decoder.layers.{}.self_attn"},
    "bert": {"encoder": "bert.encoder.layer.{}.attention.self"},
    "llama": {"decoder": "model.layers.{}.self_attn"},
}  # fmt: skip
_PROJECTIONS = {"bert": ("query", "key", "value")}
_RETURNED = {
    "marian": {"encoder": "encoder_attentions", "cross": "cross_attentions",
               "decoder": "decoder_attentions"},
    "bert": {"encoder": "attentions"},
    "llama": {"decoder": "attentions"},
}  # fmt: skip


def measure(name, model, inputs, components=None):
    """Return the values of all terms, the model's output, and the copy of the model that ran.

    A value is the mean over layers, summed over components. Gradients flow to the copy.
    """
    model = copy.deepcopy(model)
    model.set_attn_implementation("eager")
    projected, hooks = {}, []

    def keep(place):
        def hook(module, args, output):
            projected[place] = output

        return hook

    letters = _PROJECTIONS.get(name, ("q_proj", "k_proj", "v_proj"))
    root = model.model if name == "marian" else model
    for component, pattern in _NAMES[name].items():
        for layer in range(2):
            attention = root.get_submodule(pattern.format(layer))
            for letter, projection in zip("qkv", letters, strict=True):
                module = getattr(attention, projection)
                hooks.append(module.register_forward_hook(keep((component, layer, letter))))
    output = model(**inputs, output_attentions=True)
    for hook in hooks:
        hook.remove()
    source = inputs["attention_mask"] == 0
    sums = {}
    for component in components or _NAMES[name]:
        for layer in range(2):
            weights = output[_RETURNED[name][component]][layer]  # (B, H, T, S)
            q, k, v = (
                projected[component, layer, letter].unflatten(-1, (-1, 4)).transpose(1, 2)
                for letter in "qkv"
            )
            if name == "llama":
                places = torch.arange(q.size(2))[None]
                q, k = apply_rotary_pos_emb(q, k, *model.model.rotary_emb(q, places))
                k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))
            target = inputs["labels"] == -100
            keys = target if name == "marian" and component == "decoder" else source
            queries = target if name == "marian" and component != "encoder" else source
            outputs = weights @ v
            found = {
                "hsic": hsic(outputs, queries),
                "cka": cka(outputs, queries),
                "disagreement_output": output_disagreement(outputs, queries),
                "disagreement_subspace": subspace_disagreement(v, keys),
                "disagreement_position": position_disagreement(weights, queries, keys),
                "orthogonality": srip(v, keys),
                "orthogonality_cosine": mean_pairwise_cosine(q, queries)
                + mean_pairwise_cosine(k, keys)
                + mean_pairwise_cosine(v, keys),
            }
            for term, value in found.items():
                sums[term] = sums.get(term, 0.0) + value / 2
    return sums, output, model
