#!/usr/bin/env bash
# Generates and prepares the demo corpus into data/demo; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    demo --out "$root/data/demo" "$@"
