#!/usr/bin/env bash
# Make this machine a JupyterHub for the course. As root, in the course's folder; again after each `git pull`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
umask 022

main() {
    [ "$(id -u)" = 0 ] || stop "Run this as root: the hub starts each learner's server as that learner."
    everybody_reaches "$PWD"
    PYTHON=${PYTHON:-/usr/bin/python3} bash scripts/setup.sh
    everybody_reaches "$(readlink -f .venv/bin/python)"
    bash scripts/uv.sh .venv/bin/python pip install --quiet --python .venv/bin/python --compile-bytecode \
        -c constraints.txt -r deploy/jupyterhub/requirements.txt
    PATH="$PWD/.venv/bin:$PATH" npm ci --silent --prefix deploy/jupyterhub
    getent group ray-course >/dev/null || groupadd --system ray-course
    getent group ray-course-instructors >/dev/null || groupadd --system ray-course-instructors
    chmod -R u+rwX,go+rX,go-w .
    for hidden in .git chapters solutions tests; do [ ! -e "$hidden" ] || chmod go= "$hidden"; done
    id ray-course-room >/dev/null 2>&1 || useradd --system --no-create-home ray-course-room
    install -d -m 700 /var/lib/ray-course-hub
    install -d -m 700 -o ray-course-room /var/lib/ray-course-room
    echo "Installed in $SECONDS s. Next: bash deploy/jupyterhub/accounts.sh ada grace"
}

# What lies below a folder that learners cannot enter, such as /root, they cannot share: neither the course nor its Python.
everybody_reaches() {
    local folder=$1
    while [ "$folder" != / ]; do
        folder=$(dirname "$folder")
        [ "$(($(stat -c '0%a' "$folder") & 1))" = 1 ] || stop "Learners cannot enter $folder. Put the course into /opt/ray-rl-course, and name a Python of the machine: PYTHON=/usr/bin/python3"
    done
}

stop() {
    printf '%s\n' "$@" >&2
    exit 1
}

main
