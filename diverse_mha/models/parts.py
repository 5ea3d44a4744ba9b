"""The replaceable parts of each attention module, by component and layer.

A model reads them once from its options (``Seams``), before anything is built; its layers then
build their attention with them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from diverse_mha.attention import AGGREGATION, DROPHEAD, LOGITS, PROJECTIONS
from diverse_mha.attention.core import COMPONENTS
from diverse_mha.common.errors import Option, UserError, listed
from diverse_mha.common.options import Place, Seam, Selection, parse_layers, parse_names
from diverse_mha.models.attention import DiverseAttention
from diverse_mha.models.config import SEAMS
from diverse_mha.models.pruned_heads import Pruned, read_pruned

# Component -> the stack that sets its width, heads and number of layers.
SIDES = {"encoder": "encoder", "cross": "decoder", "decoder": "decoder"}
# Part of an attention module -> its attribute, where that is another word (in checkpoints).
_ATTRIBUTES = {"aggregation": "out_proj", "logit_map": "cascade"}
# Component -> name of its attention module in a layer.
ATTENTIONS = {"encoder": "self_attn", "cross": "encoder_attn", "decoder": "self_attn"}


@dataclass(frozen=True)
class Seams:
    """The parts of a model's attention modules, read from its options.

    Attributes:
        aggregation: the method of merging heads.
        layers: numbers, from 1, of the layers that use ``aggregation``, by component.
        logits: the method on the logits.
        logits_on: the components whose layers use ``logits``.
        projections: the method on queries, keys and values.
        projections_on: the components whose layers use ``projections``.
        drophead: the method of dropping heads in training.
        activation_dropout: fairseq's option.
        pruned: the heads that the model lacks.
    """

    aggregation: Selection
    layers: dict[str, frozenset[int]]
    logits: Selection
    logits_on: tuple[str, ...]
    projections: Selection
    projections_on: tuple[str, ...]
    drophead: Selection
    activation_dropout: float
    pruned: Pruned

    @classmethod
    def from_options(cls, args, components: tuple[str, ...]) -> "Seams":
        """Read and check the options.

        Args:
            args: namespace with the options of ``DiverseConfig`` and fairseq's flat names.
            components: the attention components that the model has.
        """
        if args.offload_activations:  # as in fairseq's translation models
            args.checkpoint_activations = True
        projections, aggregation, logits, drophead = (seam.read(args) for seam in SEAMS)
        layers = _read_layers(args, components)
        chosen = _check_layers(args, aggregation, layers, components)
        noise = Option(LOGITS.name), " or ", Option("attention_noise"), "; give one"
        logits_on = _read_on(args, LOGITS, logits, components, *noise)
        method = Option(PROJECTIONS.name), "; give a method"
        projections_on = _read_on(args, PROJECTIONS, projections, components, *method)
        counts = {c: getattr(args, f"{SIDES[c]}_layers") for c in components}
        shapes = {c: (counts[c], getattr(args, f"{SIDES[c]}_attention_heads")) for c in components}
        pruned = getattr(args, "pruned_heads", None)
        seams = cls(
            aggregation,
            layers,
            logits,
            logits_on,
            projections,
            projections_on,
            drophead,
            # As in fairseq's layers, relu_dropout (older) is used if activation_dropout is 0.
            args.activation_dropout or getattr(args, "relu_dropout", 0.0) or 0.0,
            read_pruned(pruned, shapes),
        )
        for part, places in (
            (projections, projections_on),
            (aggregation, chosen),
            (logits, logits_on),
            (drophead, components),
        ):
            for component in places:
                side = SIDES[component]
                shape = (getattr(args, f"{side}_{x}") for x in ("embed_dim", "attention_heads"))
                part.method.check(part.options, seams._place(component, 1, *shape))
        for component, layer in seams.pruned:
            if method := seams.tying(component, layer):
                raise UserError(
                    Option("pruned_heads", pruned), ": ", method,
                    f" ties heads of {component} layer {layer} to others; leave one of the two out",
                )  # fmt: skip
        for seam, part, on in (
            (LOGITS, logits, logits_on),
            (PROJECTIONS, projections, projections_on),
        ):
            if part.method.carries and max(counts[c] for c in on) < 2:
                among = (
                    () if on == components else (" of ", Option(f"{seam.name}_on", ",".join(on)))
                )
                raise UserError(
                    Option(seam.name, part.method.name),
                    ": needs at least two layers in one component", *among,
                    "; give more layers, or leave it out",
                )  # fmt: skip
        return seams

    def _methods(self, component: str, number: int) -> Iterator[tuple[str, Seam, Selection]]:
        """Yield (name of the part, seam, selected method) for each method of a module."""
        if number in self.layers[component]:
            yield "aggregation", AGGREGATION, self.aggregation
        if component in self.logits_on:
            yield "logit_map", LOGITS, self.logits
        yield "drophead", DROPHEAD, self.drophead
        if component in self.projections_on:
            yield "projections", PROJECTIONS, self.projections

    def tying(self, component: str, number: int) -> Option | None:
        """Return the option and method that ties a module's heads to others, or None."""
        for _, seam, selected in self._methods(component, number):
            if selected.method.head_axes is None:
                return Option(seam.name, selected.method.name)
        return None

    def _place(self, component: str, number: int, embed_dim: int, num_heads: int) -> Place:
        side = SIDES[component]
        return Place(component, side, number, embed_dim, num_heads, self.activation_dropout)

    def build(self, component: str, number: int, embed_dim: int, num_heads: int, **options):
        """Build the attention module of one layer, numbered from 1.

        ``component`` is ``encoder``, ``cross`` or ``decoder``; ``options`` go to
        ``DiverseAttention``.
        """
        place = self._place(component, number, embed_dim, num_heads)
        parts, axes, carries = {}, {}, set()
        for part, seam, (method, own) in self._methods(component, number):
            parts[part] = method.build(own, place)
            if parts[part] is not None:
                name = _ATTRIBUTES.get(part, part)
                axes |= {f"{name}.{x}": axis for x, axis in (method.head_axes or {}).items()}
            if method.carries:
                carries.add(seam.name)
        return DiverseAttention(
            embed_dim,
            num_heads,
            carry_logits=LOGITS.name in carries,
            carry_values=PROJECTIONS.name in carries,
            pruned=self.pruned.get((component, number), ()),
            head_axes=axes,
            tied_by=self.tying(component, number),
            **parts,
            **options,
        )


def _layers_option(component: str) -> str:
    return f"{AGGREGATION.name}_{component}_layers"


def _read_layers(args, components: tuple[str, ...]) -> dict[str, frozenset[int]]:
    layers = {}
    values = {c: getattr(args, _layers_option(c), None) for c in SIDES}
    # A method for every layer of self-attention, or of all attention, suits every model.
    everywhere = values["encoder"] == values["decoder"] == "all"
    for component, value in values.items():
        option = _layers_option(component)
        if everywhere and value == "all" and component not in components:
            value = None
        if component not in components and value not in (None, "none"):
            raise _absent(option, value, component)
        count = getattr(args, f"{SIDES[component]}_layers", 0)
        given = parse_layers(
            option, "none" if value is None else str(value), ("all", "none"), count
        )
        named = {"all": range(1, count + 1), "none": ()}
        layers[component] = frozenset(named[given] if isinstance(given, str) else given)
    return layers


def _absent(option: str, value: object, component: str) -> UserError:
    return UserError(
        Option(option, value), f": the model has no {component} attention; leave it out"
    )


def _read_on(
    args, seam: Seam, chosen: Selection, components: tuple[str, ...], *cure: str | Option
) -> tuple[str, ...]:
    """Return the components in which a seam's method acts.

    Raises:
        UserError: for components that the model lacks, or an option without effect.
    """
    option = f"{seam.name}_on"
    value = getattr(args, option, None)
    named = parse_names(option, value, COMPONENTS)
    for name in named:
        if name not in components:
            raise _absent(option, value, name)
    plain = seam[seam.default].options()
    if named and chosen.method.name == seam.default and chosen.options == plain:
        raise UserError(Option(option, value), ": no effect without ", *cure, ", or leave it out")
    return named or components


def _check_layers(args, aggregation: Selection, layers, components: tuple[str, ...]) -> list[str]:
    """Return the components in which layers use the aggregation.

    Raises:
        UserError: for an aggregation without layers, or layers without an aggregation.
    """
    chosen = [component for component, numbers in layers.items() if numbers]
    name, default = aggregation.method.name, AGGREGATION.default
    others = [other for other in AGGREGATION.names if other != default]
    if name == default and chosen:
        where = _layers_option(chosen[0])
        raise UserError(  # the architecture may have set the layers
            Option(where, getattr(args, where)), " has no effect with ",
            Option(AGGREGATION.name, default), f"; choose {' or '.join(others)}, or give ",
            Option(where, "none"),
        )  # fmt: skip
    if name != default and not chosen:
        raise UserError(
            Option(AGGREGATION.name, name), " is used in no layer; name layers with ",
            *listed((Option(_layers_option(component)) for component in components), "or"),
        )  # fmt: skip
    return chosen
