#!/usr/bin/env bash
# Prepares WMT14 English-German from its sources into data/wmt14-en-de; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    wmt14-en-de --out "$root/data/wmt14-en-de" "$@"
