"""Make text ready for a language model: ``diverse-mha prepare-lm``."""

from functools import partial

from diverse_mha.corpora import prepare

main = partial(prepare.main, running_text=True)
