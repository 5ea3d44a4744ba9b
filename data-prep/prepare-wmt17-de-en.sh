#!/usr/bin/env bash
# Prepares a sample of WMT17 German-English into data/wmt17-de-en; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    wmt17-de-en --out "$root/data/wmt17-de-en" "$@"
