#!/bin/sh
# What the tests need beyond Python. As root on Debian it is installed; elsewhere it is named, and the tests that need
# it are skipped and counted.
set -eu
missing=""
command -v strace >/dev/null || missing="$missing strace"
command -v curl >/dev/null || missing="$missing curl"
command -v openssl >/dev/null || missing="$missing openssl"
command -v pgrep >/dev/null || missing="$missing procps"
# Debian keeps the programs of administrators where users do not look.
PATH="$PATH:/usr/sbin:/sbin"
command -v mkfs.ext4 >/dev/null || missing="$missing e2fsprogs"
command -v losetup >/dev/null || missing="$missing mount"
command -v mkfs.xfs >/dev/null || missing="$missing xfsprogs"
command -v nft >/dev/null || missing="$missing nftables"
command -v ip >/dev/null || missing="$missing iproute2"
command -v faketime >/dev/null || missing="$missing faketime"
# Only the binaries are used (devtools/databases.py): no service of theirs needs to run.
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v mariadbd >/dev/null || missing="$missing mariadb-server"
# A Galera cluster, whose nodes copy each other by rsync and look at each other's ports.
[ -e /usr/lib/galera/libgalera_smm.so ] || missing="$missing galera-4"
command -v rsync >/dev/null || missing="$missing rsync"
command -v lsof >/dev/null || command -v ss >/dev/null || missing="$missing lsof"
command -v chromium >/dev/null || missing="$missing chromium"
command -v firefox-esr >/dev/null || command -v firefox >/dev/null || missing="$missing firefox-esr"
# WebKit needs a display, if only one that no one sees.
command -v WebKitWebDriver >/dev/null || missing="$missing webkit2gtk-driver"
command -v Xvfb >/dev/null || missing="$missing xvfb"
# For `promtool`, which checks figures, rules and alerts.
command -v promtool >/dev/null || missing="$missing prometheus"
command -v systemd-analyze >/dev/null || missing="$missing systemd"
# Spark runs on any Java from 17 on; without one the tests use the runtime that comes from PyPI.
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "not installed, and without root they stay so:$missing" >&2
    echo "tests that need them are skipped; on Debian, root installs them with: apt-get install$missing" >&2
fi
