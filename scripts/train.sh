#!/usr/bin/env bash
# Trains with fairseq and this plugin; see `bash scripts/train.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli train "$@"
