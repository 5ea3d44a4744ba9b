"""Which replaceable parts each attention module of a model gets."""

from dataclasses import dataclass, fields

from diverse_mha.aggregation import build_aggregation
from diverse_mha.attention.cascade import build_cascade
from diverse_mha.common.errors import OptionError
from diverse_mha.models.attention import DiverseAttention
from diverse_mha.models.config import SeamConfig

# Component: the side whose width, heads and number of layers it has.
SIDES = {"encoder": "encoder", "cross": "decoder", "decoder": "decoder"}

_ROUTINGS = ("simple-routing", "em-routing")
# Options that mean something only with some values of another: never ignored silently.
_ONLY_WITH = {
    "routing_iterations": ("aggregation", _ROUTINGS),
    "routing_capsules": ("aggregation", _ROUTINGS),
    "routing_activation": ("aggregation", ("em-routing",)),
    "routing_softmax_over": ("aggregation", ("simple-routing",)),
    "routing_pre_norm": ("aggregation", _ROUTINGS),
    "routing_post_norm": ("aggregation", _ROUTINGS),
    "cascade_hidden_ratio": ("cascade", ("mlp",)),
    "cascade_depth": ("cascade", ("mlp",)),
}


def parse_layers(option: str, value: str | None, count: int) -> frozenset[int]:
    """Read a choice of layers.

    Args:
        option: spelling of the option, for the message.
        value: comma list of numbers from 1, ``all``, ``none``, or None for none.
        count: how many layers there are.

    Returns:
        The numbers of the layers, from 1.

    Raises:
        OptionError: if something is not the number of a layer.
    """
    words = [word.strip() for word in str(value if value is not None else "none").split(",")]
    if words == ["none"]:
        return frozenset()
    if words == ["all"]:
        return frozenset(range(1, count + 1))
    for word in words:
        if not word.isdecimal() or not 1 <= int(word) <= count:
            raise OptionError(
                f"{option} {value}: there is no layer {word!r}; give numbers from 1 to {count} "
                "separated by commas, or all, or none"
            )
    return frozenset(int(word) for word in words)


@dataclass(frozen=True)
class Seams:
    """The parts of a model's attention modules, resolved from its options.

    Attributes:
        aggregation: kind of aggregation in the layers named below.
        aggregation_layers: numbers of the layers, from 1, by component.
        routing: options of the routing module.
        cascade: kind of cascade of logits from layer to layer.
        network: options of the cascade's network, and its noise.
        drophead: probability that a head is dropped in training.
        compile: whether to train the layers through ``torch.compile``.
    """

    aggregation: str
    aggregation_layers: dict[str, frozenset[int]]
    routing: dict
    cascade: str
    network: dict
    drophead: float = 0.0
    compile: bool = False

    @classmethod
    def from_options(cls, args, components: tuple[str, ...]) -> "Seams":
        """Resolve and check the options.

        Args:
            args: namespace with the options of ``DiverseConfig`` and fairseq's flat names.
            components: the attention components that the model has.

        Raises:
            OptionError: naming the option, its value and what would do.
        """
        _refuse_idle_options(args)
        layers = {}
        for component in SIDES:
            option = f"--aggregation-{component}-layers"
            value = getattr(args, f"aggregation_{component}_layers", None)
            count = getattr(args, f"{SIDES[component]}_layers", 0)
            if component not in components:
                count = 0
                if value not in (None, "none"):
                    raise OptionError(
                        f"{option} {value}: the model has no {component} attention; leave it out"
                    )
            layers[component] = parse_layers(option, value, count)
        chosen = [component for component, numbers in layers.items() if numbers]
        kind = str(args.aggregation)
        if kind == "linear" and chosen:
            raise OptionError(
                f"--aggregation-{chosen[0]}-layers has no effect with --aggregation linear; "
                "choose simple-routing or em-routing"
            )
        if kind != "linear" and not chosen:
            raise OptionError(
                f"--aggregation {kind} is in no layer; name some with "
                + " or ".join(f"--aggregation-{component}-layers" for component in components)
            )
        if chosen or str(args.cascade) != "none":
            _refuse_pruning(args)
        if chosen and not 0 <= args.activation_dropout < 1:
            raise OptionError(
                f"--activation-dropout {args.activation_dropout}: must be at least 0 and below 1"
            )
        if args.routing_iterations < 1:
            raise OptionError(f"--routing-iterations {args.routing_iterations}: must be 1 or more")
        capsules = getattr(args, "routing_capsules", None)
        for component in chosen:
            width = getattr(args, f"{SIDES[component]}_embed_dim")
            if capsules is not None and (capsules < 1 or width % capsules):
                raise OptionError(
                    f"--routing-capsules {capsules} does not divide "
                    f"--{SIDES[component]}-embed-dim {width}; give a divisor, "
                    f"or leave it out for {width}"
                )
        routing = {
            "capsules": capsules,
            "iterations": args.routing_iterations,
            "dropout": args.activation_dropout,
            "activation": args.routing_activation,
            "softmax_over": str(args.routing_softmax_over),
            "pre_norm": args.routing_pre_norm,
            "post_norm": args.routing_post_norm,
        }
        if not 0 <= args.drophead < 1:
            raise OptionError(f"--drophead {args.drophead}: must be at least 0 and below 1")
        network = _network_options(args)
        compiled = bool(getattr(args, "compile", False))  # not in checkpoints of older versions
        if compiled:
            _check_compile(args, {c: layers[c] for c in components})
        return cls(kind, layers, routing, str(args.cascade), network, args.drophead, compiled)

    def build(self, component: str, number: int, embed_dim: int, num_heads: int, **options):
        """Build the attention module of one layer.

        Args:
            component: ``encoder``, ``cross`` or ``decoder``.
            number: number of the layer, from 1.
            embed_dim: model width.
            num_heads: number of heads.
            **options: further arguments of ``DiverseAttention``.
        """
        aggregation = None
        if number in self.aggregation_layers[component]:
            aggregation = build_aggregation(self.aggregation, embed_dim, num_heads, **self.routing)
        # The first layer has no layer before it, only the noise.
        kind = self.cascade if number > 1 else "none"
        return DiverseAttention(
            embed_dim,
            num_heads,
            aggregation=aggregation,
            cascade=build_cascade(kind, num_heads, **self.network),
            carry_logits=self.cascade != "none",
            drophead=self.drophead,
            **options,
        )


def _refuse_idle_options(args) -> None:
    defaults = {f.name: f.default for f in fields(SeamConfig)}
    for option, (other, values) in _ONLY_WITH.items():
        value, chosen = getattr(args, option, None), str(getattr(args, other))
        if chosen not in values and str(value) != str(defaults[option]):
            raise OptionError(
                f"--{option.replace('_', '-')} {value} has no effect with --{other} {chosen}; "
                f"it goes with {' or '.join(values)}"
            )


def _refuse_pruning(args) -> None:
    """Layers that are named by number, or cascade, cannot be picked out of a checkpoint."""
    for side in ("encoder", "decoder"):
        kept = getattr(args, f"{side}_layers_to_keep", None)
        if kept:
            raise OptionError(
                f"--{side}-layers-to-keep {kept}: goes with --aggregation linear and "
                "--cascade none only"
            )


def _network_options(args) -> dict:
    if not 0 <= args.attention_noise < float("inf"):
        raise OptionError(f"--attention-noise {args.attention_noise}: must be 0 or positive")
    for option in ("cascade_hidden_ratio", "cascade_depth"):
        value = getattr(args, option)
        if value < 1:
            raise OptionError(f"--{option.replace('_', '-')} {value}: must be 1 or more")
    return {
        "hidden_ratio": args.cascade_hidden_ratio,
        "depth": args.cascade_depth,
        "noise": args.attention_noise,
    }


def _check_compile(args, routed: dict[str, frozenset[int]]) -> None:
    """Refuse ``--compile`` where it could do nothing, or not what is asked beside it."""
    if args.checkpoint_activations:
        raise OptionError("--compile: not together with --checkpoint-activations; leave one out")
    sides = {SIDES[component] for component in routed}
    plain = any(
        number not in {n for c, numbers in routed.items() if SIDES[c] == side for n in numbers}
        for side in sides
        for number in range(1, getattr(args, f"{side}_layers") + 1)
    )
    if str(args.cascade) != "none" or not plain:
        raise OptionError(
            "--compile: every layer has a cascade or routing, whose kernels it leaves as they "
            "are; leave it out"
        )
