"""Head states, measures and importance of models of transformers, beside a literal script.

The script reads the tensors of eager attention: its weights, the outputs of its value projection,
and the input of its output projection. It ablates a head by zeroing columns of that projection.
"""

import copy
import math
from itertools import combinations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers.pytorch_utils import Conv1D

from diverse_mha.analysis.importance import ImportanceMeter
from diverse_mha.analysis.results import ABLATION, GRADIENT
from diverse_mha.analysis.similarity import HeadsMeter
from diverse_mha.common.errors import UserError
from diverse_mha.hub import HeadTerms
from diverse_mha.hub.adapter import HubAdapter
from diverse_mha.hub.texts import Text
from tests.analysis import reference
from tests.hub.folders import HAS_T5, build, texts, tokenizer

# Model -> component -> attention of a layer, its value and its output projection, weights.
PARTS = {
    "marian": {
        "encoder": ("model.encoder.layers.{}.self_attn", "v_proj", "out_proj", "encoder_"),
        "cross": ("model.decoder.layers.{}.encoder_attn", "v_proj", "out_proj", "cross_"),
        "decoder": ("model.decoder.layers.{}.self_attn", "v_proj", "out_proj", "decoder_"),
    },
    "t5": {
        "encoder": ("encoder.block.{}.layer.0.SelfAttention", "v", "o", "encoder_"),
        "cross": ("decoder.block.{}.layer.1.EncDecAttention", "v", "o", "cross_"),
        "decoder": ("decoder.block.{}.layer.0.SelfAttention", "v", "o", "decoder_"),
    },
    "bert": {"encoder": ("bert.encoder.layer.{}.attention", "self.value", "output.dense", "")},
    "gpt2": {"decoder": ("transformer.h.{}.attn", "c_attn", "c_proj", "")},
    "llama": {"decoder": ("model.layers.{}.self_attn", "v_proj", "o_proj", "")},
}
PARTS["bart"], PARTS["bert classifier"] = PARTS["marian"], PARTS["bert"]
if not HAS_T5:
    del PARTS["t5"]
CASES = [(name, side, how) for name in PARTS for side in ("right", "left")
         for how in ("sdpa", "eager")]  # fmt: skip


class Case:
    """A model, a batch, and what the literal script reads from eager attention."""

    def __init__(self, name, side, how, files):
        model = build(name).double()
        model.set_attn_implementation(how)
        pair = model.config.is_encoder_decoder
        text = Text(*files[:2]) if pair else Text(files[0])
        if name == "bert classifier":
            text = Text(*files[::2])
        self.adapter = HubAdapter(model, tokenizer(), {"x": text}, block=9)
        examples = self.adapter.examples("x")[:6]
        self.batch = self.adapter.make_batch(examples)
        if side == "left":
            self._pad_left()
        self.eager, self.parts = copy.deepcopy(model), PARTS[name]
        self.eager.set_attn_implementation("eager")
        self.name = name

    def _pad_left(self):
        """Move the padding of every row from the right to the left."""
        batch = self.batch
        turns = {False: batch.source_padding, True: batch.target_padding}

        def turn(x, padding):
            return torch.stack([row.roll(int(n)) for row, n in zip(x, padding.sum(1), strict=True)])

        for inputs in {id(x): x for x in (batch.inputs, batch.scored)}.values():
            for key, value in inputs.items():
                if torch.is_tensor(value):
                    inputs[key] = turn(value, turns[key.startswith("decoder")])
        if batch.labels is not None and batch.labels.dim() > 1:
            batch.labels = turn(batch.labels, turns[batch.target_padding is not None])
        batch.source_padding = turn(batch.source_padding, batch.source_padding)
        if batch.target_padding is not None:
            batch.target_padding = turn(batch.target_padding, batch.target_padding)

    def module(self, component, layer):
        pattern, value, output, _ = self.parts[component]
        attention = self.eager.get_submodule(pattern.format(layer - 1))
        return attention.get_submodule(value), attention.get_submodule(output)

    def padding(self, component):
        source, target = self.batch.source_padding, self.batch.target_padding
        target = source if target is None else target
        queries = source if component == "encoder" else target
        return queries, target if component == "decoder" else source

    @torch.no_grad()
    def tensors(self):
        """Return (component, layer) -> weights, values and outputs of eager attention."""
        kept, handles = {}, []
        for component in self.parts:
            for layer in (1, 2):
                value, output = self.module(component, layer)

                def keep_value(module, args, result, place=(component, layer)):
                    kept[place, "values"] = result

                def keep_output(module, args, place=(component, layer)):
                    kept[place, "outputs"] = args[0]

                handles.append(value.register_forward_hook(keep_value))
                handles.append(output.register_forward_pre_hook(keep_output))
        result = self.eager(**self.batch.inputs, output_attentions=True)
        for handle in handles:
            handle.remove()
        found = {}
        for component, (*_, returned) in self.parts.items():
            for layer in (1, 2):
                values = kept[(component, layer), "values"]
                values = values[..., -16:] if self.name == "gpt2" else values
                values = values.unflatten(-1, (-1, 4)).transpose(1, 2)
                outputs = kept[(component, layer), "outputs"].unflatten(-1, (4, 4))
                found[component, layer] = {
                    "weights": result[f"{returned}attentions"][layer - 1],
                    "values": values.repeat_interleave(4 // values.size(1), dim=1),
                    "outputs": outputs.transpose(1, 2),
                }
        return found

    def losses(self):
        """Return each sentence's loss and number of predictions."""
        logits, labels = self.eager(**self.batch.scored).logits, self.batch.labels
        if labels.dim() == 1:
            return F.cross_entropy(logits, labels, reduction="none"), torch.ones(len(labels))
        logits, losses = logits.log_softmax(-1), []
        for row, row_labels in zip(logits, labels, strict=True):
            losses.append(-sum(row[t, y] for t, y in enumerate(row_labels.tolist()) if y >= 0))
        return torch.stack([torch.as_tensor(x) for x in losses]), (labels >= 0).sum(1)

    def columns(self, component, layer, head):
        """Return a head's part of the output projection, to change in place."""
        projection = self.module(component, layer)[1]
        weight = projection.weight.T if isinstance(projection, Conv1D) else projection.weight
        return weight.unflatten(1, (4, -1))[:, head]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    labels = folder / "labels"
    labels.write_text("".join(f"LABEL_{n % 3}\n" for n in range(12)))
    return (*texts(folder), labels)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request, files):
    return Case(*request.param, files)


def real(x, padding):
    """Return the vectors at real positions of x (B, H, L, D), as H arrays."""
    return [x[:, h][~padding].numpy() for h in range(x.size(1))]


def test_states_are_those_of_eager_attention(case):
    expected = case.tensors()
    found = case.adapter.states(case.batch, ("weights", "values", "outputs", "logits"))
    assert set(found) == set(case.parts)
    for (component, layer), tensors in expected.items():
        states = found[component][layer - 1]
        queries, keys = case.padding(component)
        assert torch.equal(states.query_padding_mask, queries)
        assert torch.equal(states.key_padding_mask, keys)
        for name, positions in (("outputs", queries), ("values", keys), ("weights", queries)):
            pairs = zip(
                real(getattr(states, name), positions), real(tensors[name], positions), strict=True
            )
            for one, other in pairs:
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-8)
        assert states.logits.shape == states.weights.shape


def test_measures_are_those_of_the_literal_script(case):
    meter = HeadsMeter(case.adapter.sites, ("cka", "svcca", "jsd", "entropy"), 0.9)
    meter.update(case.adapter.states(case.batch, ("weights", "outputs")))
    result = meter.result()
    for (component, layer), tensors in case.tensors().items():
        queries, keys = case.padding(component)
        found = result.components[component].layers[str(layer)]
        assert result.components[component].heads == 4
        outputs = real(tensors["outputs"], queries)
        weights, masks = tensors["weights"].numpy(), ((~queries).numpy(), (~keys).numpy())
        for head in range(4):
            entropy, sharp = reference.sharpness(weights[:, head], *masks)
            assert found["entropy"].heads[head] == pytest.approx(entropy, abs=1e-8)
            assert found["entropy"].heads_share_above[head] == pytest.approx(sharp, abs=1e-8)
        rows = real(tensors["weights"], queries)
        for i, j in combinations(range(4), 2):
            cka = reference.cka(outputs[i], outputs[j])
            svcca = float(np.mean(reference.svcca(outputs[i], outputs[j], 0.9)))
            jsd = np.mean(
                [reference.jensen_shannon(*x) for x in zip(rows[i], rows[j], strict=True)]
            )
            assert found["cka"].pairs[i][j] == pytest.approx(cka, abs=1e-8)
            assert found["svcca"].pairs[i][j] == pytest.approx(svcca, abs=1e-8)
            assert found["jsd"].pairs_per_row[i][j] == pytest.approx(jsd, abs=1e-8)


def test_importance_is_the_rise_of_the_loss_without_columns_of_the_projection(case):
    meter = ImportanceMeter(case.adapter, case.adapter.sites, (ABLATION, GRADIENT))
    assert [*meter.update(case.batch)] == case.adapter.sites
    importance, modules = meter.result()
    with torch.no_grad():
        before, counts = case.losses()
    bits = math.log(2) * float(counts.sum())
    near = 1e-6 if case.name == "llama" else 1e-8  # Llama normalises in float32
    assert importance.loss == pytest.approx(float(before.sum()) / bits, abs=near)
    assert importance.tokens == int(counts.sum())
    for component in case.parts:
        for layer in (1, 2):
            found = modules[component][str(layer)]
            for head in range(4):
                with torch.no_grad():
                    columns = case.columns(component, layer, head)
                    kept = columns.clone()
                    columns.zero_()
                    rise = float((case.losses()[0] - before).sum()) / bits
                    columns.copy_(kept)
                assert found[ABLATION].heads[head] == pytest.approx(rise, abs=near)
            assert max(map(abs, found[ABLATION].heads)) > 1e-5
    # The gradient of each sentence's loss by a gate on the columns of a head.
    component, head = next(iter(case.parts)), 2
    gate = torch.ones(4, 1, dtype=torch.float64, requires_grad=True)
    hook = case.module(component, 2)[1].register_forward_pre_hook(
        lambda _, args: ((args[0].unflatten(-1, (4, -1)) * gate).flatten(-2), *args[1:])
    )
    losses, _ = case.losses()
    hook.remove()
    slopes = [torch.autograd.grad(loss, gate, retain_graph=True)[0][head] for loss in losses]
    slope = float(torch.cat(slopes).abs().sum()) / bits
    assert modules[component]["2"][GRADIENT].heads[head] == pytest.approx(slope, abs=10 * near)


def test_the_model_is_left_as_it_was(files):
    model = build("marian")
    adapter = HubAdapter(model, tokenizer(), {"x": Text(*files[:2])})
    (batch,) = adapter.batches("x", 4000)
    before = model(**batch.inputs).logits
    adapter.states(batch, ("weights",))
    adapter.losses(batch).changed(adapter.sites[3], lambda x: x * 0)
    assert torch.equal(model(**batch.inputs).logits, before)
    assert all(not vars(module).get("forward") for module in model.modules())
    with HeadTerms(model, cka_weight=0.1), pytest.raises(UserError, match="close\\(\\) these"):
        HubAdapter(model, tokenizer())


def test_blocks_of_text_cover_it_once(files, tmp_path):
    adapter = HubAdapter(build("gpt2"), tokenizer(), {"x": Text(files[0])}, block=10)
    ids = torch.cat([example.source for example in adapter.examples("x")])
    lines = files[0].read_text()
    assert ids.tolist() == tokenizer()(lines, add_special_tokens=False)["input_ids"]
    assert {len(example.source) for example in adapter.examples("x")[:-1]} == {10}
    starts = tokenizer()
    starts.add_special_tokens({"bos_token": "</s>"})
    adapter = HubAdapter(build("llama"), starts, {"x": Text(files[0])}, block=10)
    assert not adapter.reader._begin(), "the tokenizer puts eos at the end only"


def test_masked_tokens_depend_on_the_sentence_alone(files):
    adapter = HubAdapter(build("bert"), tokenizer(), {"x": Text(files[0])})
    examples = adapter.examples("x")
    together, alone = adapter.make_batch(examples), adapter.make_batch(examples[4:5])
    size = alone.labels.size(1)
    assert torch.equal(together.labels[4, :size], alone.labels[0])
    counts = (together.labels >= 0).sum(1)
    sizes = [len(example.source) - 1 for example in examples]
    assert counts.tolist() == [max(1, round(0.15 * size)) for size in sizes]


def test_batches_hold_every_sentence_once_in_at_most_max_tokens(files):
    adapter = HubAdapter(build("marian"), tokenizer(), {"x": Text(*files[:2])})
    batches = list(adapter.batches("x", 40))
    assert sorted(n for b in batches for n in b.numbers) == list(range(12)) and len(batches) > 2
    for batch in batches:
        assert max(batch.inputs["input_ids"].numel(), batch.labels.numel()) <= 40


@pytest.mark.parametrize("name", sorted(PARTS.keys() - {"bart", "bert classifier"}))
def test_ablation_computes_only_what_depends_on_the_head(name, files):
    model, pair = build(name), name in ("marian", "t5")
    adapter = HubAdapter(model, tokenizer(), {"x": Text(*files[:2]) if pair else Text(files[0])})
    (batch,) = adapter.batches("x", 4000)
    losses, ran, rows = adapter.losses(batch), [], []
    for site in adapter.sites:
        value = model.get_submodule(PARTS[name][site.component][0].format(site.number - 1))
        value = value.get_submodule(PARTS[name][site.component][1])
        value.register_forward_hook(lambda *_, site=site: ran.append(site[:2]))

    def order(site):
        return site.component != "encoder", site.number, site.component == "cross"

    head = model.get_output_embeddings()
    head.register_forward_hook(lambda *args: rows.append(args[-1].flatten(0, -2).size(0)))
    for site in adapter.sites:
        ran.clear()
        losses.changed(site, lambda x: x * 0)
        later = {other[:2] for other in adapter.sites if order(other) > order(site)}
        if site.component == "encoder":
            later.discard(("decoder", 1))  # reads the translation alone
        assert sorted(ran) == sorted(later)
    assert set(rows) == {int((batch.labels >= 0).sum())}
