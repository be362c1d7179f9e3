# shellcheck shell=bash
# What the checks of `run` share. Each check is a function named as the check is, in one of the files beside this one, after
#
#   attack NAME NEED… -- WHAT HOLDS
#
# NEED is a service that `run` starts first, once for all: issuer, browser, api (a hostile API server), hsm. A check is a
# process of its own under `set -e`, in these surroundings:
#
#   $dir          a directory of its own, which all users can go through; $dir/tmp is open to all, as /tmp is
#   a, b COMMAND  run it as user A, the victim, or as user B, in their homes ($home_a, $home_b) with little in their environment;
#                 NAME=VALUE may stand in front. A's home is the one of the account database. Homes are new for each check.
#   $bin          credlet, links to it, and the programs of attackers; first in A's PATH
#
# `breach WHAT` and `wrong WHAT` note that an attack has succeeded, or that ordinary use has failed, and the check goes on;
# `control WHAT COMMAND…` must succeed, or the check proves nothing.

breaches=$dir/breaches

breach() { printf 'ATTACK SUCCEEDED: %s\n' "$*" | tee -a "$breaches"; }
wrong() { printf 'BROKEN: %s\n' "$*" | tee -a "$breaches"; }
control() {
  local what=$1
  shift
  if ! "$@" >"$dir/control" 2>&1; then
    printf 'THE CHECK PROVES NOTHING: %s\n' "$what"
    sed 's/^/  /' "$dir/control"
    exit 1
  fi
}
# safe WHAT COMMAND…: the command must fail, or the attack has succeeded.
safe() { if "${@:2}"; then breach "$1"; fi; }
# works WHAT COMMAND…: ordinary use.
works() { "${@:2}" || wrong "$1"; }
# equal WHAT GOT WANTED: ordinary use.
equal() { [[ $2 == "$3" ]] || wrong "$1: got ${2@Q}, not ${3@Q}"; }
# contains TEXT FILE…
contains() { grep -qaF -- "$@"; }
# within TEXT PART, for variables.
within() { [[ $1 == *"$2"* ]]; }

# eventually COMMAND…: until it succeeds, for ten seconds at most.
eventually() {
  local n
  for ((n = 0; n < 200; n++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.05
  done
  echo "never: $*" >&2
  return 1
}

# as UID GROUPS HOME COMMAND…
as() {
  local groups=--clear-groups
  if [[ -n $2 ]]; then groups=--groups=$2; fi
  setpriv --reuid "$1" --regid "$1" "$groups" env -i --chdir="$3" ${CREDLET_E2E:+CREDLET_E2E=$CREDLET_E2E} \
    HOME="$3" XDG_RUNTIME_DIR="$dir/r$1" TMPDIR="$dir/tmp" PATH="$bin:/usr/bin:/bin" LANG=C.UTF-8 "${@:4}"
}
a() { as "$uid_a" '' "$home_a" "$@"; }
b() { as "$uid_b" '' "$home_b" "$@"; }
# root_in HOME COMMAND…: root with another user's home in its environment, as after `sudo -E`.
root_in() {
  env -i --chdir=/ ${CREDLET_E2E:+CREDLET_E2E=$CREDLET_E2E} HOME="$1" XDG_RUNTIME_DIR="$dir/r0" TMPDIR="$dir/tmp" PATH="$bin:/usr/bin:/bin" \
    LANG=C.UTF-8 "${@:2}"
}
# stop_roots: proxies that root has started in a check.
stop_roots() { if [[ -d $dir/r0/credlet ]]; then root_in /nonexistent credlet proxy stop --all >"$dir/out" 2>&1 || true; fi; }
# file OWNER MODE PATH: from stdin. In directories that exist.
file() {
  cat >"$3"
  chmod "$2" "$3"
  chown "$1:$1" "$3"
}
# directory OWNER MODE PATH…
directory() { install -d -o "$1" -g "$1" -m "$2" "${@:3}"; }

# ports NUMBER: free ones, on both address families.
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

# token_json TOKEN [EXPIRES]: what a plugin prints.
token_json() {
  printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s","expirationTimestamp":"%s"}}\n' \
    "$1" "${2-2099-01-01T00:00:00Z}"
}
# kubeconfig FILE COMMAND ARGS [ENV] [SERVER]: one context. ARGS and ENV are YAML lists, ENV of {name, value}. A can read it.
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
# claim NAME: of the JWT on stdin.
claim() {
  "$python" -c 'import base64, json, sys
part = sys.stdin.read().strip().split(".")[1]
print(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))).get(sys.argv[1], ""))' "$1"
}
# field NAME.NAME: of the JSON on stdin.
field() {
  "$python" -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."): value = value[name]
print(value)' "$1"
}
# sent [FILTER]: what the API server was sent since the check began, one JSON line for each request.
sent() { tail -n "+$((api_before + 1))" "$api_log" | grep -aF -- "${1-}" || true; }
# replies JSON: by path, for the API server.
replies() { printf '%s\n' "$1" >"$api_replies"; }
