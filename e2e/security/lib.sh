# shellcheck shell=bash
# Shared functions of the checks. A check is a function of the same name in one of the files beside this one, after the line
#
#   attack NAME NEED… -- PROPERTY
#
# NEED is a service that `run` starts before the check, once per run: issuer, browser, api (a hostile API server), hsm. PROPERTY is
# a sentence about what holds. A check runs in a process of its own under `set -e`, with
#
#   $dir          a directory that all users can traverse; $dir/tmp is writable for all, like /tmp
#   a, b COMMAND  run a command as user A, the victim, or as user B, in their homes ($home_a, $home_b) with a minimal environment;
#                 NAME=VALUE may precede it. The account database has A's home. Homes are new for each check.
#   $bin          credlet, links to it, and the programs of the attackers; first in A's PATH

breaches=$dir/breaches

# breach MESSAGE: records that an attack has succeeded. The check goes on.
breach() { printf 'ATTACK SUCCEEDED: %s\n' "$*" | tee -a "$breaches"; }
# wrong MESSAGE: records that ordinary use has failed. The check goes on.
wrong() { printf 'BROKEN: %s\n' "$*" | tee -a "$breaches"; }
# control DESCRIPTION COMMAND…: exits with 1 unless the command succeeds, because the check would prove nothing.
control() {
  local description=$1
  shift
  if ! "$@" >"$dir/control" 2>&1; then
    printf 'THE CHECK PROVES NOTHING: %s\n' "$description"
    sed 's/^/  /' "$dir/control"
    exit 1
  fi
}
# safe DESCRIPTION COMMAND…: records a breach if the command succeeds.
safe() { if "${@:2}"; then breach "$1"; fi; }
# works DESCRIPTION COMMAND…: records a failure of ordinary use if the command fails.
works() { "${@:2}" || wrong "$1"; }
# equal DESCRIPTION GOT WANTED: records a failure of ordinary use if the texts differ.
equal() { [[ $2 == "$3" ]] || wrong "$1: got ${2@Q}, not ${3@Q}"; }
# contains TEXT FILE…: whether a file contains the text.
contains() { grep -qaF -- "$@"; }
# within TEXT PART: whether TEXT contains PART.
within() { [[ $1 == *"$2"* ]]; }

# eventually COMMAND…: repeats the command until it succeeds. Fails after 200 attempts, at least ten seconds.
eventually() {
  local n
  for ((n = 0; n < 200; n++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.05
  done
  echo "timed out: $*" >&2
  return 1
}

# as UID GROUPS HOME COMMAND…: runs a command as this user, with these secondary groups (comma-separated, may be empty).
as() {
  local groups=--clear-groups
  if [[ -n $2 ]]; then groups=--groups=$2; fi
  setpriv --reuid "$1" --regid "$1" "$groups" env -i --chdir="$3" ${CREDLET_E2E:+CREDLET_E2E=$CREDLET_E2E} \
    HOME="$3" XDG_RUNTIME_DIR="$dir/r$1" TMPDIR="$dir/tmp" PATH="$bin:/usr/bin:/bin" LANG=C.UTF-8 "${@:4}"
}
a() { as "$uid_a" '' "$home_a" "$@"; }
b() { as "$uid_b" '' "$home_b" "$@"; }
# root_in HOME COMMAND…: runs a command as root with HOME of another user, as after `sudo -E`.
root_in() {
  env -i --chdir=/ ${CREDLET_E2E:+CREDLET_E2E=$CREDLET_E2E} HOME="$1" XDG_RUNTIME_DIR="$dir/r0" TMPDIR="$dir/tmp" PATH="$bin:/usr/bin:/bin" \
    LANG=C.UTF-8 "${@:2}"
}
# stop_roots: stops the proxies that root has started in a check.
stop_roots() { if [[ -d $dir/r0/credlet ]]; then root_in /nonexistent credlet proxy stop --all >"$dir/out" 2>&1 || true; fi; }
# file OWNER MODE PATH: writes stdin to a file. Its directory must exist.
file() {
  cat >"$3"
  chmod "$2" "$3"
  chown "$1:$1" "$3"
}
# directory OWNER MODE PATH…: creates directories.
directory() { install -d -o "$1" -g "$1" -m "$2" "${@:3}"; }

# ports NUMBER: prints so many TCP ports that are free on 127.0.0.1 and on ::1.
ports() {
  "$python" - "$1" <<'P'
import socket, sys
held = []
while len(held) < 2 * int(sys.argv[1]):
    four = socket.socket()
    four.bind(("127.0.0.1", 0))
    port = four.getsockname()[1]
    six = socket.socket(socket.AF_INET6)
    try:
        six.bind(("::1", port))
    except OSError:
        continue
    held += [four, six]
    print(port)
P
}

# token_json TOKEN [EXPIRES]: prints an ExecCredential, the output of a plugin.
token_json() {
  printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"%s"}}\n' \
    "$1" "${2-2099-01-01T00:00:00Z}"
}
# kubeconfig FILE COMMAND ARGS [ENV] [SERVER]: writes a kubeconfig of A with an exec plugin. ARGS and ENV are YAML lists, ENV of
# {name, value}. SERVER defaults to $api.
kubeconfig() {
  file "$uid_a" 600 "$1" <<K
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: '${5-$api}', certificate-authority: '$bin/ca.crt'}}]
users:
- name: u
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: '$2', args: $3, env: ${4-[]}, interactiveMode: IfAvailable, provideClusterInfo: true}}
K
}
# claim NAME: prints a claim of the JWT on stdin.
claim() {
  "$python" -c 'import base64, json, sys
part = sys.stdin.read().strip().split(".")[1]
print(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))).get(sys.argv[1], ""))' "$1"
}
# field NAME.NAME: prints a member of the JSON document on stdin. Fails if it is missing.
field() {
  "$python" -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."): value = value[name]
print(value)' "$1"
}
# sent [TEXT]: prints the requests that the API server received since the start of the check and that contain TEXT, one JSON object
# per line.
sent() { tail -n "+$((api_before + 1))" "$api_log" | grep -aF -- "${1-}" || true; }
# replies JSON: sets the responses of the API server by path, see server.py.
replies() { printf '%s\n' "$1" >"$api_replies"; }
