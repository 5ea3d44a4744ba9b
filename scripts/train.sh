#!/usr/bin/env bash
# Training with fairseq and this plugin; `bash scripts/train.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli train "$@"
