#!/usr/bin/env bash
# Perplexity of a language model; `bash scripts/evaluate-lm.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli evaluate-lm "$@"
