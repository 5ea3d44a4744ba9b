#!/usr/bin/env bash
# Averages several checkpoints; see `bash scripts/average.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli average "$@"
