#!/bin/sh
# Builds the package in build/compiled or build/plain: the wheel, and beside it what the wheel installs. Where it cannot
# be compiled, it is built plain, which does the same more slowly. In build/source it is an archive of the source.
set -eu
kind=$1
folder=build/$kind
rm -rf "$folder"
mkdir -p "$folder"

build() {
    PENSTOCK_COMPILE=$1 PENSTOCK_BUILD=$folder PENSTOCK_PYTHON=.venv/bin/python .venv-build/bin/pip wheel --quiet \
        --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$folder/wheel" .
}

if [ "$kind" = source ]; then
    PENSTOCK_BUILD=$folder .venv-build/bin/python -c \
        "from setuptools.build_meta import build_sdist; build_sdist('$folder')" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
    exit 0
fi
if [ "$kind" = plain ]; then
    build no
else
    echo "compiling what every request passes through: less than a minute, and only once"
    if ! build yes >"$folder/log" 2>&1; then
        sed -n 's/.*cannot be compiled: /cannot be compiled: /p' "$folder/log" >&2
        echo "not compiled ($folder/log says why): Penstock runs as plain Python, and more slowly;" \
            "to try again: rm -r build" >&2
        build no
    fi
fi
.venv-build/bin/pip install --quiet --disable-pip-version-check --no-deps --no-index --no-compile \
    --target "$folder/package" "$folder"/wheel/*.whl
