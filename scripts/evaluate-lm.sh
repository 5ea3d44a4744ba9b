#!/usr/bin/env bash
# Computes the perplexity of a language model; see `bash scripts/evaluate-lm.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli evaluate-lm "$@"
