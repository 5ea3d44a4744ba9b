#!/usr/bin/env bash
# Prepares WMT17 Chinese-English into data/wmt17-zh-en; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    wmt17-zh-en --out "$root/data/wmt17-zh-en" "$@"
