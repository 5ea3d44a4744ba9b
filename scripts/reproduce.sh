#!/usr/bin/env bash
# A paper's table or figure by one command; `bash scripts/reproduce.sh --help` says how.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
exec "$python" -m diverse_mha.cli reproduce "$@"
