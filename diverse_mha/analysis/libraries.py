"""The libraries that plots and the report need, which the rest of the package does not."""

import importlib.util

from diverse_mha.common.errors import UserError

LIBRARIES = {"matplotlib": "matplotlib", "sklearn": "scikit-learn", "jinja2": "jinja2"}


def check_libraries() -> None:
    """Refuse to begin where a library is missing.

    Raises:
        UserError: says what to install.
    """
    missing = [name for module, name in LIBRARIES.items() if not importlib.util.find_spec(module)]
    if missing:
        raise UserError(
            f"plots and the report need {', '.join(missing)}: pip install {' '.join(missing)}; "
            "without them, --output FILE.json writes the numbers"
        )
