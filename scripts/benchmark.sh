#!/usr/bin/env bash
# Measures training speed against stock fairseq; see `bash scripts/benchmark.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli benchmark "$@"
