#!/bin/sh
# What the tests need beyond Python. As root on Debian it is installed; elsewhere the tests that need it skip and say so.
set -eu
missing=""
command -v strace >/dev/null || missing="$missing strace"
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
