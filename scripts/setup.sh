#!/usr/bin/env bash
# Makes .venv in the repository root and installs the package with everything
# it needs, in the versions of constraints.txt. Needs Python 3.11 to 3.13 (if
# none is found, uv, installed into .python, gets Python 3.13) and a C++ compiler.
# It can be run again at any time: it installs what has changed since, and prints
# nothing if everything is installed.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    cat <<'EOF'
usage: bash scripts/setup.sh

Makes .venv in the repository root. After a change of constraints.txt or setup.py
it installs into .venv what has changed. After an interrupted set-up, or for
another Python, it makes .venv anew. It refuses to change a .venv that something
else made, or that a program on this machine is running from.

environment:
  PYTHON                the Python (3.11 to 3.13) to make .venv from
  CXX                   the C++ compiler that builds fairseq's compiled parts
  DIVERSE_MHA_PYTHON    a Python with all packages: scripts use it instead of
                        .venv, and this script does nothing

Other scripts call this script on first use. If there is no .venv and python3 has
torch and fairseq, they use python3 instead.
EOF
    exit 0
fi
if (($#)); then
    echo "error: $1: this script has no options; see bash scripts/setup.sh --help" >&2
    exit 2
fi
[[ -z ${DIVERSE_MHA_PYTHON:-} ]] || exit 0

root=$(CDPATH="" cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
venv=$root/.venv
begun=$venv/set-up-begun # marks .venv as made by this script; not empty while packages are being changed
stamp=$venv/set-up-complete # what the packages were installed for, or only the folder if the last change failed
built=$venv/fairseq-built   # what fairseq was compiled for

fail() {
    echo "error: $*" >&2
    exit 2
}

# Prints what .venv was made from. The folder is part of it, because the
# commands in .venv/bin contain its absolute path.
fingerprint() {
    echo "$root"
    cksum constraints.txt setup.py
    "$venv/bin/python" -V 2>&1
}

complete() {
    [[ -f $stamp && ! -s $begun && -x $venv/bin/python && $(<"$stamp") == "$(fingerprint)" ]]
}

# Succeeds if packages can be installed into .venv as it is: it is whole, in its place, and of a fitting Python.
usable() {
    [[ -f $stamp && ! -s $begun && $(head -n 1 "$stamp") == "$root" ]] && fits "$venv/bin/python" &&
        [[ -z ${PYTHON:-} || $("$PYTHON" -V 2>&1) == "$("$venv/bin/python" -V 2>&1)" ]]
}

compiled_for() {
    "$venv/bin/python" -V 2>&1
    grep -iE '^(fairseq|numpy|cython)' constraints.txt || true
}

# Refuses to empty what others made: an environment of the user's, or the target of a link.
check_place() {
    [[ -e $venv || -L $venv ]] || return 0
    [[ -d $venv && ! -L $venv && (-f $begun || -f $stamp || -z $(find "$venv" -mindepth 1)) ]] ||
        fail "$venv was not made by this script and would be replaced: move it away, or," \
            "if it has all packages, set DIVERSE_MHA_PYTHON=$venv/bin/python"
}

# Refuses to change an environment from which a program runs, such as a training: it imports some
# modules later. Such a program was started by its path, or, in an activated environment, as plain
# python: then (on Linux) it shows by the compiled modules that it has loaded.
check_unused() {
    local user place
    [[ -f $stamp ]] || return 0
    place=$(cd -P -- "$venv" && pwd)
    user=$({
        pgrep -f -- "^$venv/bin/"
        grep -lFs -- " $place/" /proc/[0-9]*/maps
    } 2>/dev/null | grep -o '[0-9]*' | head -n 1) || true
    [[ -z $user ]] || fail "$venv must be changed for the new constraints.txt or setup.py," \
        "but process $user runs from it: wait for its end, or stop it, and run again"
}

# mark TEXT: replaces the contents of the mark at once.
mark() {
    printf '%s' "$1" >"$begun.new"
    mv "$begun.new" "$begun"
}

# Deletes all of .venv but the mark that it is ours.
empty() {
    find "$venv" -mindepth 1 -maxdepth 1 ! -name "${begun##*/}" -exec rm -rf {} +
}

# On Python 3.14 importing fairseq fails: there Optional[str] is str | None, which fairseq cannot read.
fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

find_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        fits "$PYTHON" || fail "PYTHON=$PYTHON is $("$PYTHON" -V 2>/dev/null ||
            echo "not a working Python"): set it to Python 3.11, 3.12 or 3.13"
        python=$PYTHON
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && fits "$candidate"; then
            python=$candidate
            return
        fi
    done
    fetch_python
}

# Installs uv with the pip of another Python, and a managed Python 3.13 with uv.
fetch_python() {
    local tools=$root/.python version
    version=$(python3 -V 2>/dev/null || echo missing)
    if [[ ! -x $tools/bin/uv ]]; then
        python3 -m venv "$tools" >/dev/null 2>&1 || no_python "$version"
        echo "python3 is $version, and fairseq runs on 3.11 to 3.13: getting Python 3.13 with uv"
        "$tools/bin/python" -m pip install -qq --no-input --disable-pip-version-check uv >&2 ||
            no_python "$version"
    fi
    "$tools/bin/uv" python install 3.13 >&2 || no_python "$version"
    python=$("$tools/bin/uv" python find --managed-python 3.13) || no_python "$version"
    fits "$python" || no_python "$version"
}

no_python() {
    fail "python3 is $1, and fairseq runs on 3.11 to 3.13: install Python 3.13 beside it" \
        "(uv python install 3.13), or give PYTHON=/path/to/python3.13"
}

# fairseq is compiled from source. The trial rejects a compiler that is only a placeholder.
find_compiler() {
    local candidate
    for candidate in ${CXX:+"$CXX"} c++ g++ clang++; do
        # CXX may hold options, or a wrapper such as ccache, so it is split.
        # shellcheck disable=SC2086
        if $candidate -x c++ -fsyntax-only - <<<'int main() { return 0; }' >/dev/null 2>&1; then
            export CXX=$candidate
            [[ $candidate != clang++ || -n ${CC:-} ]] || export CC=clang
            return
        fi
    done
    fail "no working C++ compiler${CXX:+ (CXX=$CXX)}: install one" \
        "(Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install)"
}

check_python_parts() {
    local version header
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$python has no venv module: install it (Debian, Ubuntu: apt install python$version-venv)"
    header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
    [[ -f $header ]] ||
        fail "$header is missing: install Python's headers" \
            "(Debian, Ubuntu: apt install python$version-dev; Fedora: dnf install python$version-devel)"
}

pip() {
    local code=0
    "$venv/bin/python" -m pip "$1" -qq --no-input --disable-pip-version-check --progress-bar off "${@:2}" || code=$?
    ((code == 0)) && return
    ((code > 127)) || mark "" # pip has ended by itself, and left no package half installed
    ((code > 127)) || [[ ! -f $stamp ]] || usable_still="; until then, DIVERSE_MHA_PYTHON=$venv/bin/python uses $venv as it is"
    fail "pip could not $1 ${*: -1}, for the reason above; correct that and run again${usable_still:-}"
}

# Nine tenths of fairseq's compilation is for BASE layers, Levenshtein Transformers and an example.
# Nothing here uses these parts, and only they need torch's headers. fairseq's setup.py imports the
# module below instead of torch's build tools, and builds only the other parts.
write_build_tools() {
    mkdir -p "$1/torch/utils"
    touch "$1/torch/__init__.py" "$1/torch/utils/__init__.py"
    cat >"$1/torch/utils/cpp_extension.py" <<'EOF'
from setuptools import Extension
from setuptools.command.build_ext import build_ext


class CppExtension(Extension):
    pass


class BuildExtension(build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.extensions = [e for e in self.extensions if not isinstance(e, CppExtension)]
        self.parallel = True
EOF
}

complete && exit 0

# Two set-ups at once would spoil each other: the second waits, then finds all done.
if command -v flock >/dev/null && exec 9<"${BASH_SOURCE[0]}"; then
    flock 9 || true
    complete && exit 0
fi

# Nothing of an outer environment may leak in.
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX
check_place
check_unused
kept=""
if usable; then kept=yes python=$venv/bin/python; else find_python; fi
if [[ -z $kept || ! -f $built || $(<"$built") != "$(compiled_for)" ]]; then
    find_compiler
    check_python_parts
fi

trap 'echo "interrupted; run the same command again to go on" >&2; exit 130' INT
seconds=$SECONDS
if [[ -n $kept ]]; then
    echo "Installing into $venv what has changed"
    mark changing
    echo "$root" >"$stamp" # complete for nothing, until all is installed
else
    # The Python found may be in the .venv that is about to be emptied: use the one that it is based on.
    python=$("$python" -c 'import sys; print(sys._base_executable)')
    echo "Setting up $venv with $("$python" -V)"
    echo "[1/4] an empty environment (10 s)"
    mkdir -p "$venv"
    [[ -f $begun ]] || : >"$begun" # first and never deleted, so that an interrupted .venv is recognised as ours
    mark changing
    empty
    "$python" -m venv "$venv"
    pip install --no-compile --upgrade pip
fi

echo "[2/4] PyTorch and build tools (half a minute, and the download: with CUDA up to 3 GB)"
pip install --no-compile -c constraints.txt torch numpy cython setuptools wheel

if [[ ! -f $built || $(<"$built") != "$(compiled_for)" ]]; then
    # Not in pip's cache, from which other environments would get a fairseq without those parts.
    echo "[3/4] fairseq, compiled from source (half a minute)"
    rm -rf "$venv/build"
    write_build_tools "$venv/build"
    PYTHONPATH=$venv/build pip wheel --no-cache-dir --no-deps --no-build-isolation -w "$venv/build" \
        "$(grep '^fairseq' constraints.txt)"
    pip install --no-compile --force-reinstall --no-deps "$venv"/build/fairseq*.whl
    rm -rf "$venv/build"
    compiled_for >"$built"
fi

echo "[4/4] this package, its analysis, test and documentation tools (half a minute)"
pip install --no-compile -c constraints.txt --no-build-isolation -e '.[analysis,dev,docs]'
# fairseq requires torchaudio, which text does not need. It is built for CUDA only: with a torch
# without CUDA it cannot be imported, and packages that try to use it fail.
"$venv/bin/python" -c 'import torchaudio' >/dev/null 2>&1 ||
    "$venv/bin/python" -m pip uninstall -qq -y torchaudio

# Compile in parallel, which pip does not. Files for other Python versions fail. A third of the files is
# rarely used and compiled on first use: other packages' tests, and the models of transformers.
rarely='/site-packages/(.*/tests|transformers/models)/'
"$venv/bin/python" -m compileall -qq -j 0 -x "$rarely" "$venv/lib" || true

fingerprint >"$stamp.new"
mv "$stamp.new" "$stamp"
mark ""
echo "Set up in $((SECONDS - seconds)) s. Next: bash scripts/quickstart.sh"
