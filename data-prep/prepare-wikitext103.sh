#!/usr/bin/env bash
# Prepares WikiText-103 into data/wikitext103; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare-lm \
    wikitext103 --out "$root/data/wikitext103" "$@"
