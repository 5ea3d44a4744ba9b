#!/usr/bin/env bash
# Prepares a sample of the UN corpus (Chinese-English) into data/un-zh-en; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    un-zh-en --out "$root/data/un-zh-en" "$@"
