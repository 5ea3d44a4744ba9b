#!/usr/bin/env bash
# Runs a recipe's whole experiment, from corpus to score; see `bash scripts/run.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli run "$@"
