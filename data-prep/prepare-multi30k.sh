#!/usr/bin/env bash
# Prepares Multi30k (German-English) into data/multi30k; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    multi30k --out "$root/data/multi30k" "$@"
