#!/usr/bin/env bash
# Make accounts for the hub, and print a name and a password for each:
#     bash deploy/jupyterhub/accounts.sh ada grace
#     bash deploy/jupyterhub/accounts.sh --instructor lovelace
# An account that is there already gets a new password.
set -euo pipefail
groups=ray-course
if [ "${1:-}" = --instructor ]; then
    groups=ray-course,ray-course-instructors
    shift
fi
for name; do
    id "$name" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$name"
    usermod --append --groups "$groups" "$name"
    chmod 700 "$(getent passwd "$name" | cut -d: -f6)"
    password=$(tr -dc 'a-hjkmnp-z2-9' </dev/urandom | head -c 12 || true)
    chpasswd <<<"$name:$password"
    echo "$name $password"
done
