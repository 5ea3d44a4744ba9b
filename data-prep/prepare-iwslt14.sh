#!/usr/bin/env bash
# Prepares IWSLT14 German-English into data/iwslt14; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    iwslt14 --out "$root/data/iwslt14" "$@"
