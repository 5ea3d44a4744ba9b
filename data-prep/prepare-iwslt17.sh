#!/usr/bin/env bash
# Prepares IWSLT17 German-English into data/iwslt17; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    iwslt17 --out "$root/data/iwslt17" "$@"
