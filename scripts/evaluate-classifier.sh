#!/usr/bin/env bash
# Computes the accuracy of a classifier; see `bash scripts/evaluate-classifier.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli evaluate-classifier "$@"
