#!/usr/bin/env bash
# Prepares the probing tasks into data/probing; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare-probing --out "$root/data/probing" "$@"
