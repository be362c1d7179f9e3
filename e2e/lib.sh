# shellcheck shell=bash
# What tests share. Those that need a cluster source it once they run under `cluster/with`, and only those have $server.

e2e=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$e2e")
server=${CLUSTER:+$(cat "$CLUSTER/server")}
work=$(mktemp -d)
jobs=()
cleanup() {
  local job
  for job in "${jobs[@]}"; do kill "$job" 2>/dev/null || true; done
  # Whoever is leaving may still write something down.
  rm -rf "$work" 2>/dev/null || { sleep 1 && rm -rf "$work"; }
}
trap cleanup EXIT
# The administrator's kubeconfig is for the preparations only; who is under test names another.
export KUBERC=off
# For the Python peers. No bytecode is written beside the sources.
export PYTHONPATH=$e2e/pylib PYTHONDONTWRITEBYTECODE=1

# end JOB: now, and not at the end of the test.
end() {
  kill "$1"
  wait "$1" 2>/dev/null || true
}

passed=0 failed=0
rows=$work/rows
# seen WHO WHAT: a check that has passed, and its row.
seen() {
  passed=$((passed + 1))
  printf '| %s | %s |\n' "$1" "$2" >>"$rows"
}
# is WHO WHAT WANTED GOT: or nothing more is worth trying.
is() {
  if [[ $3 != "$4" ]]; then
    printf 'FAIL %s: %s\n  wanted %q\n  got    %q\n' "$1" "$2" "$3" "$4" >&2
    exit 1
  fi
  seen "$1" "$2"
}
# check WHAT COMMAND…: whether the command succeeds; its output is shown if it does not, and the rest is tried all the same.
# The row is $who's.
check() {
  local what=$1
  shift
  if "$@" >"$work/output" 2>&1; then
    printf 'ok   %s\n' "$what"
    seen "$who" "$what"
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n' "$what"
    sed 's/^/  /' "$work/output"
  fi
}

# has TITLE TEXT PART: a check that TEXT contains PART.
has() { check "$1" text_contains "$2" "$3"; }
text_contains() { printf 'wanted %s in: %s\n' "$2" "$1" && [[ $1 == *"$2"* ]]; }
# equal TITLE GOT WANTED: a check that two texts are equal.
equal() { check "$1" text_equals "$2" "$3"; }
text_equals() { printf 'wanted %s\ngot    %s\n' "$2" "$1" && [[ $1 == "$2" ]]; }

# json_field PATH: prints a member of the JSON document on stdin, for example `json_field status.token`; an empty line if it is
# missing or null.
json_field() {
  python3 -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1].split("."):
    value = value.get(name) if isinstance(value, dict) else None
print("" if value is None else value if isinstance(value, str) else json.dumps(value))' "$1"
}
# jwt_claims: prints the claims of the JWT on stdin as JSON. Does not verify the signature.
jwt_claims() {
  python3 -c 'import base64, sys
part = sys.stdin.read().strip().split(".")[1]
print(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode())'
}
# free_port: prints the number of a TCP port of 127.0.0.1 that nothing listens on.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# eventually COMMAND…: until it succeeds, for two minutes at most.
eventually() {
  local n
  for ((n = 0; n < 600; n++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  echo "never: $*" >&2
  return 1
}

# kubeconfig FILE COMMAND ARGS [MORE OF THE CLUSTER] [MORE OF THE USER]
kubeconfig() {
  cat >"$1" <<K
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: '$server', certificate-authority: '$CLUSTER/ca.crt'${4-}}}]
users:
- name: u
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: $2, args: $3, interactiveMode: Never, provideClusterInfo: true}${5-}}
K
}

# who OPTIONS…: whom the server takes `credlet` for, with the kubeconfig $config.
who() {
  "$credlet" request -H "Content-Type: application/json" /apis/authentication.k8s.io/v1/selfsubjectreviews --kubeconfig "$config" \
    --data '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}' "$@" </dev/null |
    sed -nE 's/.*"username": ?"([^"]*)".*/\1/p' | head -1
}

# kubectl_version KUBECTL
kubectl_version() { "$1" version --client -o json | sed -nE 's/.*"gitVersion": "([^"]*)".*/\1/p'; }

# Plugins note each of their runs in the file "runs". runs [WHICH]: how many.
runs() { grep -c "${1-}" "$work/runs" || true; }
fresh() { : >"$work/runs"; }

# replace_account NAME TOKEN: another service account of that name, of which TOKEN is none.
replace_account() {
  kubectl delete serviceaccount "$1" >/dev/null
  kubectl create serviceaccount "$1" >/dev/null
  # The server remembers for a while whom it let in.
  eventually refused "$2"
}
refused() { ! kubectl --token "$1" auth whoami 2>"$work/refused" && grep -q "must be logged in" "$work/refused"; }

# start_proxy: of both kinds on $proxy_port, with a line in $work/tunnels for each tunnel. SIGUSR1 to $proxy cuts them.
start_proxy() {
  python3 "$e2e/client/proxy.py" "$work/proxy" >>"$work/tunnels" &
  proxy=$!
  jobs+=("$proxy")
  eventually test -s "$work/proxy"
  proxy_port=$(cat "$work/proxy")
}

# finish NAME PEERS [--update]: the last call of a test. With --update its part of docs/compatibility.md is written anew.
finish() {
  local page=$root/docs/compatibility.md begin="<!-- by e2e/$1/run --update -->" end="<!-- end of e2e/$1 -->"
  printf '%s passed, %s failed\n' "$passed" "$failed"
  if ((failed || !passed)); then exit 1; fi
  if [[ ${3-} != --update ]]; then return; fi
  grep -qxF "$begin" "$page"
  {
    printf '%s\n' "$begin"
    if [[ -n $server ]]; then
      printf 'kube-apiserver and kubectl %s, etcd %s, ' "$(kubectl version -o json | sed -nE 's/.*"gitVersion": "([^"]*)".*/\1/p' | tail -1)" \
        "$(etcd --version | sed -nE 's/etcd Version: //p')"
    fi
    printf '%s.\n\n' "$2"
    printf '| who | what was seen |\n|---|---|\n'
    cat "$rows"
    printf '%s\n' "$end"
  } >"$work/part"
  # Another test may be writing its own part.
  flock "$e2e" sed -i -e "\\|^$end\$|r $work/part" -e "\\|^$begin\$|,\\|^$end\$|d" "$page"
}
