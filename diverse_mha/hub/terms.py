"""``HeadTerms``: Drophead and the loss terms on a model of transformers."""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

from torch import nn
from transformers import PreTrainedModel

from diverse_mha import methods  # noqa: F401  registers terms and Drophead
from diverse_mha.attention import DROPHEAD
from diverse_mha.attention.core import COMPONENTS
from diverse_mha.attention.registries import CountsUpdates
from diverse_mha.common.errors import Option, UserError
from diverse_mha.common.options import Place
from diverse_mha.hub.attention import (
    EXPLICIT,
    AttentionModule,
    Site,
    attach,
    attention_modules,
    config_of,
    detach,
    has_terms,
    head_count,
    implementation,
    no_eager,
    not_observable,
)
from diverse_mha.hub.states import Batch, Recorder, refused
from diverse_mha.hub.trainer import HeadTermsMixin
from diverse_mha.methods.diversity import DiversityTerms, diversity_options

if TYPE_CHECKING:  # needs accelerate
    from transformers import Trainer

AnyTrainer = TypeVar("AnyTrainer", bound="Trainer")


class HeadTerms:
    """Drophead and loss terms on a model of transformers, through its attention interface.

    Choose it to train a Hugging Face model with a term or with Drophead. The saved model is an
    ordinary one, and loads without this package.

    The terms leave the model's outputs unchanged; Drophead changes them in training. The model
    keeps its attention function. If a term needs weights or logits, training uses the model's own
    eager attention. Terms act in training only, on all components (``encoder``, ``cross`` and
    ``decoder``) or on those named by options such as ``hsic_on="encoder"``. Call :meth:`close`, or
    use the object as a context manager, to restore the attention.

    Args:
        model: a model of transformers, or a wrapper of such a model, for example PEFT's.
        options: options of the terms, of Drophead and of the schedule by their names in
            docs/options.md, with underscores: ``hsic_weight=1e-7``, ``disagreement="output"``,
            ``drophead=0.1``, ``diversity_start=100``.

    Attributes:
        components: names of the components that the model has.

    Raises:
        UserError: for an illegal option, or a model whose attention cannot be replaced.
    """

    components: tuple[str, ...]

    def __init__(self, model: nn.Module, **options: str | float | None):
        _check_options(options)
        found = list(attention_modules(model))
        kind = type(model).__name__
        if not found:
            advice = "take a model that supports attn_implementation, such as Marian, BERT or Llama"
            raise UserError(f"HeadTerms: {not_observable(model, advice)}")
        if any(has_terms(one.module) for one in found):
            raise UserError(f"HeadTerms: {kind} has terms already; close() these terms first")
        places = _places(found)
        numbers = {place.component: place.num_heads for place in places}
        heads = {name: numbers[name] for name in COMPONENTS if name in numbers}
        try:
            cfg = SimpleNamespace(**options)
            self._terms = DiversityTerms.from_config(cfg)
            self._terms.check_components(heads, "a model with more")
            method, given = DROPHEAD.read(cfg)
            for place in places:
                method.check(given, place)
        except UserError as error:
            raise refused(*error.args) from None
        self.components = tuple(heads)
        for one in found:
            implementation(kind, config_of(one.module))
            needed = self._terms.wanted_of(self.components).get(one.component, ())
            if one.eager is None and not EXPLICIT.isdisjoint(needed):
                raise refused(
                    *self._terms.options,
                    f": needs attention weights or logits, but {one.name} has no eager attention "
                    "to compute them; choose other components, such as with hsic_on",
                )
        self._recorder = Recorder()
        self._encoder_decoder = _is_encoder_decoder(model, found)
        self._dropheads = [method.build(given, place) for place in places]
        # Weak, so that terms that are never closed do not keep the model alive.
        self._modules: WeakSet[nn.Module] = WeakSet()
        for one, drophead in zip(found, self._dropheads, strict=True):
            eager = one.eager or no_eager
            attach(one.module, Site(self._recorder, one.component, eager, drophead))
            self._modules.add(one.module)

    def close(self) -> None:
        """Restore the model's attention; may be called again."""
        for module in list(self._modules):
            detach(module)
        self._modules.clear()

    def __enter__(self) -> "HeadTerms":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def acts_on(self, model: nn.Module) -> bool:
        """Return True if these terms act on attention of the model."""
        return any(module in self._modules for module in model.modules())

    @contextmanager
    def collect(
        self, inputs: Mapping[str, Any], step: int | None = None, *, shifted: bool = False
    ) -> Iterator[Batch]:
        """Context manager: record the head states of one forward pass, for your own training loop.

        ::

            with terms.collect(batch) as heads:
                loss = model(**batch).loss
            loss = loss + heads.loss()

        Args:
            inputs: the batch, of which labels and ``decoder_attention_mask`` are read.
            step: number of updates done; a schedule (``diversity_start``) needs it.
            shifted: True if the model's loss leaves out the first label, as in language models.

        Yields:
            The batch; ``loss()`` is the weighted sum of the terms, ``values`` are their values.
        """
        if not self._modules:
            raise UserError("collect: the terms are closed; make a new HeadTerms for the model")
        schedule = self._terms.schedule
        factor = 1.0
        if schedule:
            if step is None:
                raise UserError("collect: the schedule needs the number of updates; give step")
            factor = schedule.factor(step)
        for drophead in self._dropheads:
            if step is not None and isinstance(drophead, CountsUpdates):
                drophead.set_num_updates(step)
        self._recorder.wanted = self._terms.wanted_of(self.components) if factor else {}
        batch = Batch(self._terms, factor, self.components, inputs, self._encoder_decoder, shifted)
        self._recorder.batch = batch
        try:
            yield batch
        finally:
            self._recorder.batch = None

    def trainer(self, base: type[AnyTrainer]) -> type[AnyTrainer]:
        """Return a subclass of ``base``, which is transformers' ``Trainer`` or a subclass of it.

        The training loss is that of ``base`` plus weight * term, as in this package's criterions.
        The log has ``loss`` without the terms, each term, and ``diversity_loss``, the weighted sum
        of the terms.
        """
        if not isinstance(base, type):
            raise UserError(
                f"trainer: needs a class, not a {type(base).__name__} object; give Trainer, then "
                "call the returned class with its arguments"
            )
        made = type(f"HeadTerms{base.__name__}", (HeadTermsMixin, base), {"head_terms": self})
        return cast("type[AnyTrainer]", made)  # as made of a base that is known only here


def _check_options(options: Mapping[str, object]) -> None:
    """Raise :class:`UserError` for an unknown option or a value of the wrong type."""
    known = {f.name: f for f in (*diversity_options(), *DROPHEAD.options())}
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 3, cutoff=0.4) or sorted(known)[:3]
            raise UserError(f"HeadTerms: no option {name}; did you mean {', '.join(near)}?")
        option = known[name]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        weight = name.endswith("_weight")
        wants_number = weight or isinstance(option.default, (int, float)) or option.type in _NUMBERS
        if value is None and option.default is None:
            continue
        if number != wants_number or not number and not isinstance(value, str):
            kind = "number" if wants_number else "name, or names separated by commas"
            raise refused(Option(name, value), f": give a {kind}")


_NUMBERS = (float | None, int | None)


def _places(found: list[AttentionModule]) -> list[Place]:
    """Return the position of each attention module in the model."""
    places: list[Place] = []
    for one in found:
        number = 1 + sum(place.component == one.component for place in places)
        side = "encoder" if one.component == "encoder" else "decoder"
        heads = head_count(one.module)
        width = getattr(one.module.config, "hidden_size", 0)
        places.append(Place(one.component, side, number, width, heads))
    return places


def _is_encoder_decoder(model: nn.Module, found: list[AttentionModule]) -> bool:
    """Return True if a model around the attention modules is an encoder-decoder."""
    attention = {id(one.module) for one in found}
    return any(
        getattr(module.config, "is_encoder_decoder", False)
        and any(id(part) in attention for part in module.modules())
        for module in model.modules()
        if isinstance(module, PreTrainedModel)
    )
