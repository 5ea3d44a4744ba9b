#!/usr/bin/env bash
# Prepares a parallel corpus of your own into data/own; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    own --out "$root/data/own" "$@"
