#!/bin/sh
# The load generator and the peers, from Debian's packages. Without root the benchmarks report what is absent.
set -eu
missing=""
command -v wrk >/dev/null || missing="$missing wrk"
command -v redis-server >/dev/null || missing="$missing redis-server"
# Only the binaries are used (devtools/databases.py): no service of theirs needs to run.
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
