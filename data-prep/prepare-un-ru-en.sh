#!/usr/bin/env bash
# Prepares a sample of the UN corpus (Russian-English) into data/un-ru-en; --help lists the options.
set -euo pipefail
. -- "$(dirname -- "${BASH_SOURCE[0]}")/../scripts/env.sh"
exec "$python" -m diverse_mha.cli prepare \
    un-ru-en --out "$root/data/un-ru-en" "$@"
