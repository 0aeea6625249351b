#!/bin/sh
# The load generator and the peers, from Debian's packages. Without root the benchmarks report what is absent.
set -eu
# Debian keeps the programs of administrators where users do not look.
PATH="$PATH:/usr/sbin:/sbin"
missing=""
for program in wrk redis-server rabbitmq-server beanstalkd nats-server; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v mariadbd >/dev/null || missing="$missing mariadb-server"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed, and without root they stay so:$missing" >&2
    exit 0
fi
# Only the binaries are used: no service of theirs may start, now or with the machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
for package in $missing; do
    apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "$package cannot be installed" >&2
    if command -v systemctl >/dev/null; then
        systemctl disable --quiet "$package" 2>/dev/null || true
    fi
done
