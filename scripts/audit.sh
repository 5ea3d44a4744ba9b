#!/usr/bin/env bash
# Checks the pinned versions against a database of known vulnerabilities.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'USAGE'
usage: bash scripts/audit.sh

Audits the versions in constraints.txt with pip-audit against the vulnerability
database of the Python package index. If the database cannot be reached, the
script says so in one line and succeeds. It fails if it finds a vulnerability
that is not listed in scripts/audit-ignore.txt.
USAGE
    exit 0
fi
if (($#)); then
    echo "error: $1: this script has no options; see bash scripts/audit.sh --help" >&2
    exit 2
fi

. -- "$(dirname -- "${BASH_SOURCE[0]}")/env.sh"
cd "$root"

skip() {
    echo "dependency audit skipped: $*"
    exit 0
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

audit() {
    "$python" -m pip_audit --disable-pip --no-deps --progress-spinner off \
        --timeout 10 --requirement "$@" >"$folder/found" 2>"$folder/log"
}

"$python" -c 'import pip_audit' 2>/dev/null ||
    skip "pip-audit is missing: $python -m pip install -c constraints.txt pip-audit"
# The real database reports this known vulnerability; a proxy or an error page does not.
echo "jinja2==2.4.1" >"$folder/known"
if audit "$folder/known" || ! grep -qi '^jinja2 ' "$folder/found"; then
    skip "the vulnerability database of the package index cannot be reached"
fi

ignored=()
while read -r id _; do
    [[ -z $id || $id == '#'* ]] || ignored+=(--ignore-vuln "$id")
done <scripts/audit-ignore.txt
if audit constraints.txt ${ignored[@]+"${ignored[@]}"}; then
    echo "dependency audit: no known vulnerability in constraints.txt"
elif grep -q '^Name .*Version .*ID ' "$folder/found"; then
    cat "$folder/found"
    echo "error: constraints.txt: known vulnerabilities; take the fixed versions, or add the ID" \
        "with a reason to scripts/audit-ignore.txt" >&2
    exit 1
else
    skip "$(tail -n 1 "$folder/log")"
fi
