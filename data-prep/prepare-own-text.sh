#!/usr/bin/env bash
# Prepares text of your own for a language model into data/own-text; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare-lm \
    own --out "$root/data/own-text" "$@"
