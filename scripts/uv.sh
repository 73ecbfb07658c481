#!/usr/bin/env bash
# Run uv for an environment, with what pip is told there: the machine's own uv, or one that pip puts into the environment.
#     bash scripts/uv.sh .venv/bin/python pip list
set -euo pipefail
PY=$1

# Index, folders of wheels, certificate: uv reads none of pip's configuration. What uv itself was told comes first.
hand_on_pip_settings() {
    local told
    told=$("$PY" -m pip config list 2>/dev/null) || true
    hand_on UV_DEFAULT_INDEX "$(setting index-url "$told")"
    hand_on UV_INDEX "$(setting extra-index-url "$told")"
    hand_on UV_FIND_LINKS "$(setting find-links "$told" | tr ' ' ',')"
    hand_on SSL_CERT_FILE "$(setting cert "$told")"
    [ -z "${UV_INDEX:-}" ] || hand_on UV_INDEX_STRATEGY unsafe-best-match # like pip: the best version of all indexes
}

hand_on() { [ -z "$2" ] || [ -n "${!1:-}" ] || export "$1=$2"; }

# Print one of pip's settings; the environment's comes before the one for `install`, that before the one for all commands.
setting() {
    local level
    for level in :env: install global; do
        sed -n "s/^$level\.$1='\(.*\)'\$/\1/p" <<<"$2"
    done | head -n 1 | sed 's/\\n/ /g; s/^ *//'
}

PATH=$PATH:$(dirname "$PY")
command -v uv >/dev/null || "$PY" -m pip install --quiet --disable-pip-version-check --no-input uv >&2
hand_on_pip_settings
exec uv "${@:2}"
