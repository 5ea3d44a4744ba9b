#!/usr/bin/env bash
# Prepares the Penn Treebank language-modelling set into data/ptb; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare-lm \
    ptb --out "$root/data/ptb" "$@"
