#!/usr/bin/env bash
# Learning curves of several runs; `bash scripts/learning-curve.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli learning-curve "$@"
