#!/usr/bin/env bash
# What a GPU does, in one report; `bash scripts/check-gpu.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli check-gpu "$@"
