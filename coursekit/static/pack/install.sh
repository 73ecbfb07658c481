#!/usr/bin/env bash
# Install the course from this folder, without a network, into ~/ray-rl-course or the folder that you name:
#     bash install.sh
#     PYTHON=/path/to/python3.12 bash install.sh ~/courses/ray
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
TARGET=${1:-$HOME/ray-rl-course}

main() {
    local machine python
    machine=$(machine)
    python=$(packed_python "$machine") || stop "This folder is not for this machine ($machine) with a Python that was found here. It holds:" \
        "$(cat "$HERE/contents.txt")" \
        "Install one of these Pythons (in WSL, one for Linux), or name its path: PYTHON=/path/to/python3.11 bash install.sh"
    mkdir -p "$TARGET"
    cp -R "$HERE/ray-rl-course/." "$TARGET"
    cd "$TARGET"
    ln -sfn "$HERE/wheels" .wheels # pip takes a space in a path, as in "USB STICK", for the end of it
    trap 'rm -f .wheels' EXIT
    export PIP_NO_INDEX=1 PIP_FIND_LINKS=.wheels UV_NO_INDEX=1 UV_OFFLINE=1 UV_FIND_LINKS=.wheels
    PYTHON=$python PROJECT=. bash scripts/setup.sh
    printf '\n== Open the course: cd "%s" && .venv/bin/coursekit lab\n' "$PWD"
}

machine() {
    case "$(uname -s)-$(uname -m)" in
        Darwin-arm64) echo macos-arm64 ;;
        Linux-*) echo "linux-$(uname -m)" ;;
        *) uname -sm ;;
    esac
}

# Print the first Python that this folder holds the wheels for.
packed_python() {
    local candidate version
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3; do
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        if grep -q "^$1, Python $version:" "$HERE/contents.txt"; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

stop() {
    printf '%s\n' "$@" >&2
    exit 1
}

main
