"""Our attention module equals fairseq's."""

import pytest
import torch
from fairseq.modules import MultiheadAttention

from diverse_mha.attention import check_state_names, core
from diverse_mha.attention.core import causal_bias, padding_bias
from diverse_mha.models import attention
from diverse_mha.models.attention import DiverseAttention

B, T, S, C, H = 3, 4, 6, 16, 4


def pair(**kwargs):
    """Return our module and fairseq's with equal parameters, in float64 and evaluation mode."""
    torch.manual_seed(0)
    ours = DiverseAttention(C, H, **kwargs).double()
    kdim = kwargs.pop("kdim", None)
    stock = MultiheadAttention(C, H, kdim=kdim, vdim=kdim, **kwargs).double()
    stock.load_state_dict(ours.state_dict())
    ours.eval()
    stock.eval()
    return ours, stock


def inputs(width=C, length=S):
    torch.manual_seed(1)
    query = torch.randn(T, B, C, dtype=torch.float64, requires_grad=True)
    key = torch.randn(length, B, width, dtype=torch.float64, requires_grad=True)
    return query, key


def key_padding(length=S):
    mask = torch.zeros(B, length, dtype=torch.bool)
    mask[1, length - 2 :] = True
    mask[2, :1] = True
    return mask


def run(module, query, key, *, need="none", padding=None, causal=False, **options):
    """Run either module in fairseq's layout; return its output and attention weights.

    ``need``: the weights to return, ``none``, their ``mean`` over heads, or those of all ``heads``.
    """
    if isinstance(module, DiverseAttention):
        masks = {"key_padding_mask": padding, "causal": causal}
        if causal and padding is not None:
            bias = causal_bias(len(query), query.dtype, query.device)
            masks = {"bias": torch.minimum(bias, padding_bias(padding, query.dtype))}
        wanted = ("weights",) * (need != "none")
        key = None if key is None else key.transpose(0, 1)
        attended = module(query.transpose(0, 1), key, wanted=wanted, **masks, **options)
        weights = attended.states.weights
        if weights is not None:
            weights = weights.mean(dim=1) if need == "mean" else weights.transpose(0, 1)
        return attended.output.transpose(0, 1), weights
    mask = torch.full((T, T), float("-inf"), dtype=torch.float64).triu(1) if causal else None
    needs = {"need_weights": need != "none", "need_head_weights": need == "heads"}
    return module(query, key, key, key_padding_mask=padding, attn_mask=mask, **needs, **options)


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("need", ["none", "mean", "heads"])
@pytest.mark.parametrize("kind", ["self", "causal", "cross", "cross-other-width"])
def test_values_and_gradients_equal_stock(kind, need, padded):
    cross = kind.startswith("cross")
    width = 10 if kind == "cross-other-width" else C
    kwargs = {"encoder_decoder_attention": True} if cross else {"self_attention": True}
    if width != C:
        kwargs["kdim"] = width
    ours, stock = pair(**kwargs)
    stock.skip_embed_dim_check = True  # makes fairseq return every head
    padding = key_padding(S if cross else T)
    if kind == "causal":
        padding[2] = False  # the first query would have no key, which gives NaN in fairseq
    call = {
        "padding": padding if padded else None,
        "causal": kind == "causal",
        "static_kv": cross,
        "need": need,
    }
    results = []
    for module in (ours, stock):
        query, key = inputs(width)
        if not cross:
            key = query
        output, weights = run(module, query, key, **call)
        output.square().sum().backward()
        gradients = [query.grad, *(p.grad for p in module.parameters())]
        results.append((output, weights, gradients))
        module.zero_grad()
    (output, weights, gradients), (output2, weights2, gradients2) = results
    torch.testing.assert_close(output, output2, rtol=1e-5, atol=1e-6)
    # fairseq computes the softmax in float32
    torch.testing.assert_close(weights, weights2, check_dtype=False)
    torch.testing.assert_close(gradients, gradients2, rtol=1e-4, atol=1e-5)


def test_recorded_logits_are_unmasked_and_values_equal_stock():
    ours, stock = pair(encoder_decoder_attention=True)
    query, key = inputs()
    mask = key_padding()
    states = ours(query.transpose(0, 1), key.transpose(0, 1), wanted=("logits", "values")).states
    masked = states.logits + padding_bias(mask, torch.float64)
    options = {"key_padding_mask": mask, "static_kv": True, "before_softmax": True}
    logits, values = stock(query, key, key, **options)
    torch.testing.assert_close(states.values.flatten(0, 1), values)
    torch.testing.assert_close(masked.flatten(0, 1).softmax(-1), logits.softmax(-1))


def test_weights_are_computed_only_if_weights_or_logits_are_requested(monkeypatch):
    ours, _ = pair(self_attention=True)
    x = inputs()[0].transpose(0, 1)
    calls = []
    for place, path in ((core.F, "scaled_dot_product_attention"), (ours, "_explicit")):
        original = getattr(place, path)
        monkeypatch.setattr(
            place, path, lambda *a, _p=path, _o=original, **k: (calls.append(_p), _o(*a, **k))[1]
        )
    for wanted in ((), ("outputs", "values", "queries", "keys"), ("weights",), ("logits",)):
        ours(x, x, wanted=wanted)
    assert calls == ["scaled_dot_product_attention"] * 2 + ["_explicit"] * 2


@pytest.mark.parametrize(
    "rows, kept_keys",
    [([0, 1, 2, 4, 5], 5), ([2, 3, 4, 5], 4), ([0, 3, 1, 4, 2, 5], 6), ([5, 3, 4], 1)],
    ids=["one less", "two sentences", "mixed", "a sentence leaves"],
)
def test_beams_share_the_keys_of_their_sentence(rows, kept_keys):
    """If a sentence loses some of its beams, or beams are mixed, each row stores its own keys."""
    ours, _ = pair(encoder_decoder_attention=True)
    query, key = inputs()
    query, key = query.repeat(1, 2, 1), key[:, :2].repeat_interleave(3, dim=1)
    mask = key_padding()[:2].repeat_interleave(3, dim=0)
    outputs = []
    for beam_size in (1, 3):
        ours.set_beam_size(beam_size)
        state, kept = {}, torch.tensor(rows)
        options = {"incremental_state": state, "static_kv": True}
        run(ours, query, key, padding=mask, **options)
        stored = []
        for order in (kept, torch.arange(len(rows) - 1)):
            ours.reorder_incremental_state(state, order)
            stored.append(ours._get_input_buffer(state)["prev_key"].size(0))
            left = key[:, order]
            outputs.append(run(ours, query[:, : len(order)], left, **options)[0])
    torch.testing.assert_close(outputs[:2], outputs[2:])
    assert stored == [kept_keys, len(rows) - 1]


@pytest.mark.parametrize("wanted", [(), ("weights",)], ids=["fused", "explicit"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_query_without_keys_gives_finite_outputs(dtype, wanted):
    ours = DiverseAttention(C, H, self_attention=True).to(dtype)
    x = (30 * torch.randn(2, T, C)).to(dtype).requires_grad_()
    bias = padding_bias(torch.tensor([[True] * T, [False] * T]), dtype)
    output = ours(x, x, bias=bias, wanted=wanted).output
    output.float().square().sum().backward()
    assert output.isfinite().all() and x.grad.isfinite().all()


def decode_stepwise(module, query, key, mask, order=None, **kwargs):
    """Decode (T, B, C) queries step by step with an incremental state."""
    state, outputs = {}, []
    for step in range(query.size(0)):
        if order is not None and step:
            module.reorder_incremental_state(state, order)
            query = query.index_select(1, order)
        this = query[step : step + 1]
        out, _ = run(module, this, key, padding=mask, incremental_state=state, **kwargs)
        outputs.append(out)
    return torch.cat(outputs)


def test_padding_of_each_step_is_cached_as_in_stock():
    query, _ = inputs()
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[1, 1] = padding[2, 2:] = True
    results = []
    for module in pair(self_attention=True):
        state = {}
        for step in range(T):
            result = run(
                module,
                *(query[step : step + 1],) * 2,
                padding=padding[:, step : step + 1],
                incremental_state=state,
                need="mean",
            )
            results.append(result)
    torch.testing.assert_close(results[:T], results[T:], check_dtype=False)


# fairseq's module assumes that reordering stays within a sentence.
@pytest.mark.parametrize(
    "order, beam_size",
    [(None, 1), (None, 3), (torch.tensor([2, 1, 0]), 3)],
    ids=["one", "beams", "reordered"],
)
def test_incremental_cross_attention_equals_stock(order, beam_size):
    ours, stock = pair(encoder_decoder_attention=True)
    query, key = inputs()
    mask = key_padding()
    if beam_size > 1:  # three beams of one sentence share its keys
        key = key[:, :1].expand(-1, 3, -1)
        mask = mask[1:2].expand(3, -1)
    results = []
    for module in (ours, stock):
        module.set_beam_size(beam_size)
        results.append(decode_stepwise(module, query, key, mask, order=order, static_kv=True))
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-7)


def test_shared_beams_return_weights_per_beam():
    ours, _ = pair(encoder_decoder_attention=True)
    query, key = inputs()
    key = key[:, :1].expand(-1, 3, -1)
    expected = run(ours, query, key, need="heads")
    ours.set_beam_size(3)
    folded = run(ours, query, key, incremental_state={}, static_kv=True, need="heads")
    torch.testing.assert_close(folded, expected)


@pytest.mark.parametrize("state", [None, {}], ids=["full", "incremental"])
def test_an_empty_batch_gives_an_empty_output(state):
    ours, stock = pair(self_attention=True)
    none = inputs()[0][:, :0]
    torch.testing.assert_close(
        run(ours, none, none, incremental_state=state), run(stock, none, none)
    )


def test_an_unknown_component_of_head_states_is_reported():
    with pytest.raises(ValueError, match="unknown component 'encodr'; choose from"):
        check_state_names({"encodr": ("weights",)})


@pytest.mark.parametrize("causal", [False, True])
def test_matrix_products_in_bfloat16_equal_the_fused_kernel(monkeypatch, causal):
    torch.manual_seed(1)
    attention = DiverseAttention(32, 4, self_attention=True).to(torch.bfloat16).eval()
    x = torch.randn(2, 7, 32).to(torch.bfloat16)
    mask = None if causal else torch.arange(7)[None, :] >= torch.tensor([[7], [4]])

    def attend():
        return attention(x, x, causal=causal, key_padding_mask=mask, wanted=("outputs",))

    short = attend()
    monkeypatch.setattr(core, "_FEW_KEYS", 0)  # so that the fused kernel is used
    long = attend()
    torch.testing.assert_close(short.output, long.output, rtol=2e-2, atol=2e-2)
    assert short.logits is None and short.states.weights is None
    assert short.states.outputs.dtype == torch.bfloat16


# One matrix product for queries, keys and values, as on a GPU.


def projected(module, monkeypatch, *, jointly):
    """Return output and gradients of a training pass, and the number of calls of ``linear``."""
    products = []
    monkeypatch.setattr(attention, "launches_cost", lambda device: jointly)
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda *a: (products.append(a), torch._C._nn.linear(*a))[1]
    )
    x = inputs()[0].detach().transpose(0, 1).to(module.q_proj.weight.dtype).requires_grad_()
    output = module(x, x).output
    leaves = [x, *module.parameters()]
    return [output, *torch.autograd.grad(output.square().sum(), leaves)], len(products)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("carries", [False, True], ids=["fused", "explicit"])
def test_joint_projection_equals_separate_projections(carries, dtype, monkeypatch):
    module = DiverseAttention(C, H, self_attention=True, carry_logits=carries).to(dtype).train()
    with monkeypatch.context() as patch:
        apart, three = projected(module, patch, jointly=False)
    with monkeypatch.context() as patch:
        jointly, one = projected(module, patch, jointly=True)
    assert (three, one) == (4, 2)
    rounding = 1e-6 if dtype == torch.float32 else 1e-14
    for joint, expected in zip(jointly, apart, strict=True):
        assert (joint - expected).norm() <= rounding * apart[0].norm().clamp_min(expected.norm())


@pytest.mark.parametrize("change", ["eval", "hook", "cross"])
def test_projections_are_separate_with_hooks_in_evaluation_and_cross_attention(change, monkeypatch):
    module = DiverseAttention(C, H, self_attention=change != "cross").double().train()
    seen = []
    if change == "eval":
        module.eval()
    if change == "hook":
        module.k_proj.register_forward_hook(lambda *given: seen.append(given))
    _, products = projected(module, monkeypatch, jointly=True)
    assert products == 4
    assert len(seen) == (change == "hook")
