"""Request for a training: options for fairseq, or a recipe with overrides."""

from dataclasses import dataclass, field
from pathlib import Path

from diverse_mha.common.errors import UserError
from diverse_mha.common.options import flag

_TRUE = ("true", "yes", "on", "y", "1")  # values that OmegaConf reads as true


@dataclass
class Request:
    """Request for a training."""

    arguments: list[str]  # options or overrides for fairseq, as given
    processes: int | None = None  # None: fairseq's default
    config: Path | None = None  # the YAML file, for fairseq-hydra-train
    recipe: dict = field(default_factory=dict)  # settings of the recipe
    dry: bool = False  # show the settings, and train nothing

    def setting(self, group: str, key: str) -> str | None:
        """Return ``--some-key`` of the command line, or ``group.some_key`` of the recipe."""
        if self.config is None:
            value, option = None, flag(key)
            for position, word in enumerate(self.arguments):
                if word == option:
                    value = (self.arguments[position + 1 :] or [""])[0]
                elif word.startswith(option + "="):
                    value = word.partition("=")[2]
            return value
        value = self.recipe.get(group)
        if isinstance(value, dict):
            value = value.get(key)
        elif key != "_name":  # a plain value, as in model=NAME, is the name
            value = None
        return None if value is None else str(value)

    def number(self, group: str, key: str) -> int | None:
        """Return a setting that is a whole number; None if it is absent.

        Raises:
            UserError: if it is something else, such as an interpolation, which only Hydra resolves.
        """
        value = self.setting(group, key)
        try:
            return None if value is None else int(value)
        except ValueError:
            name = flag(key) if self.config is None else f"{self.config}: {group}.{key}"
            raise UserError(f"{name}={value}: give a whole number") from None

    def flag(self, group: str, key: str) -> bool:
        """Return True if ``--some-flag`` is given, or true in the recipe."""
        if self.config is None:
            return flag(key) in self.arguments
        return (self.setting(group, key) or "").lower() in _TRUE
