"""Attention heads that differ usefully: four papers in one fairseq plugin.

``--user-dir diverse_mha`` imports this package, which registers its architectures, tasks,
criterions and optimiser. Without fairseq the functions of ``diverse_mha.methods`` and
``diverse_mha.measures`` still work; ``diverse-mha doctor`` says what is wrong.
"""

import logging
import os
import sys

from diverse_mha.common.errors import say_interrupted

__version__ = "0.1.0"

# fairseq looks for the folder of --user-dir in this list, by its name.
if os.path.realpath(__path__[0]) not in __path__:
    __path__.append(os.path.realpath(__path__[0]))

# fairseq asks on stderr for tensorboardX, which it needs for speech.
logging.getLogger("fairseq.tasks.text_to_speech").addFilter(
    lambda record: "install tensorboardX" not in record.getMessage()
)


def register() -> None:
    """Register everything with fairseq, and apply the fixes; may be called again."""
    from diverse_mha import criterions, models, optim, tasks  # noqa: F401


# During ``python -m diverse_mha.x`` the command's name is -m.
_command = os.path.basename(sys.argv[0] if sys.argv else "")
_ours = _command in ("-m", "diverse-mha")
if _ours or _command.startswith("fairseq-"):
    sys.excepthook = say_interrupted
# Our own commands register later: most start without fairseq and torch.
if not _ours:
    try:
        import fairseq as _fairseq  # noqa: F401
    except Exception:  # fairseq-train itself will report it
        pass
    else:
        register()
