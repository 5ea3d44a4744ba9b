#!/usr/bin/env bash
# Reproduces a paper's table or figure; see `bash scripts/reproduce.sh --help`.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli reproduce "$@"
