#!/usr/bin/env bash
# Try the hub for real, as root: install the course and the hub in a new folder, then run test_hub.py there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
place=$(mktemp -d /tmp/hub.XXXXXX)
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
# In a copy without git: everything but what was installed or built there.
{ git ls-files -z 2>/dev/null || find . \( -name .venv -o -name build -o -name work \) -prune -o -type f -print0; } |
    xargs -0 cp --parents -t "$place"
bash "$place/deploy/jupyterhub/install.sh" >"$place/install.log" 2>&1 || { cat "$place/install.log" && exit 1; }
tail -n 1 "$place/install.log"
cd "$place"
.venv/bin/python -m pytest -p no:cacheprovider -s --durations=0 deploy/jupyterhub/test_hub.py
