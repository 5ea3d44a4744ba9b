"""Calls of fairseq that search much, once a process.

fairseq-fixed 0.12.3.1 composes its command line by Hydra's ``initialize``, which looks for its
caller in the source files of the whole stack: 0.6 s under cProfile.
"""

from pathlib import Path

from fairseq.dataclass import utils
from hydra import initialize_config_dir

from diverse_mha.fairseq_fixes.patch import patch


@patch(utils, "initialize")
def _initialize(original, config_path: str):
    """Initialize Hydra with the folder that it would find; ``config_path`` is relative to utils."""
    folder = Path(utils.__file__).resolve().parent / config_path
    return initialize_config_dir(str(folder), version_base="1.1")
