#!/usr/bin/env bash
# Builds the documentation site from the pages of this repository.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/site.sh [FOLDER]

Builds the documentation as a web site in FOLDER (default: build/site) with
Sphinx: the pages of docs/ and results/, the notebooks, all commands with their
options, and the Python interface. It takes about half a minute, and seconds if
only some pages have changed. It needs no network, nor does the site: open
FOLDER/index.html in a browser.

The script fails if a page, a docstring or a link in them is broken.
EOF
    exit 0
fi
if (($# > 1)) || [[ ${1:-} == -* ]]; then
    echo "error: $*: give one folder at most; see bash scripts/site.sh --help" >&2
    exit 2
fi

folder=${1:-}
[[ -z $folder || $folder == /* ]] || folder=$PWD/$folder
needs=(sphinx myst_nb furo sphinx_copybutton)
. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
cd "$root"
folder=${folder:-$root/build/site}
"$python" -m sphinx -q -W --keep-going -b html -c docs/site . "$folder"
echo "$folder/index.html"
