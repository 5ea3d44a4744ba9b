#!/usr/bin/env bash
# Training speed against stock fairseq; `bash scripts/benchmark.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli benchmark "$@"
