#!/usr/bin/env bash
# Translates by beam search and computes BLEU; see `bash scripts/evaluate.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli evaluate "$@"
