#!/bin/sh
# What the tests need beyond Python. As root on Debian it is installed; elsewhere the tests that need it skip and say so.
set -eu
missing=""
command -v strace >/dev/null || missing="$missing strace"
command -v curl >/dev/null || missing="$missing curl"
command -v openssl >/dev/null || missing="$missing openssl"
command -v mkfs.ext4 >/dev/null || missing="$missing e2fsprogs"
command -v mkfs.xfs >/dev/null || missing="$missing xfsprogs"
command -v faketime >/dev/null || missing="$missing faketime"
# Only the binaries are used (tests/databases.py): no service of theirs needs to run.
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v mariadbd >/dev/null || test -x /usr/sbin/mariadbd || missing="$missing mariadb-server"
command -v chromium >/dev/null || missing="$missing chromium"
# Spark runs on any Java from 17 on; without one the tests use the runtime that comes from PyPI.
if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
