"""Make text ready for a language model: ``diverse-mha prepare-lm``."""

from functools import partial

from diverse_mha.common.errors import run_cli
from diverse_mha.corpora import prepare

main = partial(prepare.main, running_text=True)

if __name__ == "__main__":
    run_cli(main)
