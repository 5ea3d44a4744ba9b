#!/usr/bin/env bash
# Accuracy of a classifier; `bash scripts/evaluate-classifier.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli evaluate-classifier "$@"
