#!/usr/bin/env bash
# The average of several checkpoints; `bash scripts/average.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli average "$@"
