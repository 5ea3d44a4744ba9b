#!/usr/bin/env bash
# Beam search and BLEU; `bash scripts/evaluate.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli evaluate "$@"
