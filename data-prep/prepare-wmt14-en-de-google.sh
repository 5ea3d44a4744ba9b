#!/usr/bin/env bash
# Prepares WMT14 English-German as Google prepared it into data/wmt14-en-de-google; see --help.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    wmt14-en-de-google --out "$root/data/wmt14-en-de-google" "$@"
