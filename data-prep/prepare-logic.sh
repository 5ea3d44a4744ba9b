#!/usr/bin/env bash
# Prepares pairs of logical formulas into data/logic; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare-logic --out "$root/data/logic" "$@"
