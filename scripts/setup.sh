#!/usr/bin/env bash
# Make .venv with the exact versions of constraints.txt. A second run finds everything in place and ends at once.
#     PYTHON=3.12 bash scripts/setup.sh       chooses the Python yourself, by version or path
#     INSTALLER=pip bash scripts/setup.sh     does without uv
#     bash scripts/setup.sh site              makes .venv-site instead: what `make site` needs, without the course
# VENV and CONSTRAINTS name another environment and other versions (tests/canary.py); PROJECT=. leaves out what only authors need;
# NEXT is the command to name at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
HERE=$(pwd -P)
WHAT=${1:-course}
[ "$WHAT" != site ] || VENV=.venv-site CONSTRAINTS=site/requirements.txt
VENV=${VENV:-.venv}
CONSTRAINTS=${CONSTRAINTS:-constraints.txt}
PROJECT=${PROJECT:-.[dev]}
STAMP=$VENV/.installed
CPU_INDEX=https://download.pytorch.org/whl/cpu

main() {
    if usable_venv && [ "$(wanted)" = "$(cat "$STAMP" 2>/dev/null)" ]; then return; fi
    usable_venv || make_venv
    case $WHAT in
        course) say "Installing the course into $VENV (1 to 3 GB, some minutes; only this once)." ;;
        site) say "Installing Sphinx into $VENV (250 MB; only this once)." ;;
    esac
    "install_$WHAT" || failed
    wanted >"$STAMP"
    say "Installed in $SECONDS s.${NEXT:+ Next: $NEXT}"
}

# What an installation depends on. A changed version, or a folder moved to another place, installs again.
wanted() { echo "$HERE" && cksum pyproject.toml "$CONSTRAINTS"; }

# A virtual environment writes its own path into its scripts, so one that was moved or copied does not work.
usable_venv() { fits "$VENV/bin/python" && head -n 3 "$VENV/bin/pip" 2>/dev/null | grep -qF "$HERE/$VENV/bin/python"; }

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

make_venv() {
    local python version
    python=$(find_python)
    version=$("$python" --version)
    version=${version#Python }
    "$python" -c 'import ensurepip, venv' 2>/dev/null || stop "Python $version lacks its venv module. Install it, then run this again:" \
        "    Debian, Ubuntu: sudo apt-get install python${version%.*}-venv"
    say "Making $VENV with Python $version."
    "$python" -m venv --clear "$VENV"
}

find_python() {
    local candidates=(python3.11 python3.12 python3.13 python3 python) candidate
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON" "python$PYTHON" "$(pyenv prefix "$PYTHON" 2>/dev/null)/bin/python")
    for candidate in "${candidates[@]}"; do
        if fits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    stop "This course needs Python 3.11, 3.12 or 3.13, and ${PYTHON:-python3} is $(version_of "${PYTHON:-python3}"). Install one of them:" \
        "    Debian 12, Ubuntu 22.04: sudo apt-get install python3.11-venv      Ubuntu 24.04: sudo apt-get install python3.12-venv" \
        "    Debian 13: sudo apt-get install python3.13-venv" \
        "    macOS: brew install python@3.11      with conda: conda env create -f environment.yml" \
        "    any system, with uv (untested): uv python install 3.13, then make setup PYTHON=\"\$(uv python find 3.13)\"" \
        "Then run this again, or name its path: make setup PYTHON=/path/to/python3.11"
}

version_of() { "$1" --version 2>/dev/null || echo "not there"; }

# uv takes half of pip's time. Where it cannot be had, pip installs the same versions.
install_course() {
    if [ "${INSTALLER:-uv}" = uv ] && uv --version >/dev/null; then
        by_uv
    else
        torch_by_pip && by_pip -e "$PROJECT"
    fi
}

install_site() {
    if [ "${INSTALLER:-uv}" = uv ] && uv --version >/dev/null; then
        uv pip install --python "$VENV/bin/python" --compile-bytecode -r "$CONSTRAINTS"
    else
        by_pip -r "$CONSTRAINTS"
    fi
}

uv() { bash scripts/uv.sh "$VENV/bin/python" "$@"; }

# With `auto`, uv asks PyTorch's own index for the build that fits the machine: that for its GPU, or the small one for its CPU.
by_uv() {
    if on_linux && answers "$CPU_INDEX/torch/"; then
        install_by_uv --torch-backend auto && return
        say "The PyTorch build for this machine could not be downloaded: trying the usual build instead."
    fi
    install_by_uv
}

install_by_uv() { uv pip install --python "$VENV/bin/python" --compile-bytecode -c "$CONSTRAINTS" "$@" -e "$PROJECT"; }

# PyTorch's usual build for Linux brings gigabytes of GPU libraries. Where no GPU can use them, take the CPU build.
torch_by_pip() {
    if on_linux && ! has_gpu && answers "$CPU_INDEX/torch/"; then
        say "No NVIDIA GPU found: taking the CPU build of PyTorch."
        by_pip --extra-index-url "$CPU_INDEX" torch && return
        say "The CPU build could not be downloaded: trying PyTorch's usual build instead."
    fi
    by_pip torch
}

by_pip() { "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input -c "$CONSTRAINTS" "$@"; }

on_linux() { [ "$(uname)" = Linux ]; }

has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

answers() { timeout 6 "$VENV/bin/python" -c 'import sys, urllib.request as web; web.urlopen(sys.argv[1], timeout=5)' "$1" 2>/dev/null; }

failed() {
    stop "The installation stopped early; the reason is above. What to do:" \
        "    the connection is missing or broken (it may be reported as a version conflict): run the same command again," \
        "        which keeps what has arrived; behind a proxy, first export HTTPS_PROXY=http://your.proxy:port" \
        "    the disk is full: make room; the course needs 3 GB, with GPU libraries 8 GB, and $(free_space) are free" \
        "    uv fails where pip works: make setup INSTALLER=pip"
}

free_space() { df -Ph . | awk 'NR == 2 {print $4}'; }

say() { printf '\n== %s\n' "$1"; }

stop() {
    printf '\n' >&2
    printf '%s\n' "$@" >&2
    exit 1
}

main
