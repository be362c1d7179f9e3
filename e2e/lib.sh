# shellcheck shell=bash
# Shared functions of the suites. A suite sources this file; one that needs a cluster does so inside `cluster/with`, otherwise
# with CLUSTER unset.
#
# Sets:
#   $e2e, $root   the folder of this file, and the root of the repository
#   $work         the scratch directory of the suite, removed on exit
#   $server       URL of the API server of the cluster; empty without a cluster
#   jobs          array of process ids that are killed on exit; append the processes that you start
#
# Two options of `e2e/run` arrive in the environment:
#   CREDLET_E2E_CHECK   run one check: the suite stops after the first checks whose "SUBJECT: TITLE" contains this text
#   CREDLET_E2E_KEEP    keep $work on exit and print where it is
#
# A check has a subject (the programs that are tested together) and a title (what was observed). `is` stops the suite on a
# failure, `check`, `has` and `equal` go on. The last call of a suite is `finish`.

e2e=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$e2e")
server=${CLUSTER:+$(cat "$CLUSTER/server")}
work=$(mktemp -d)
jobs=()
# cleanup: kills the processes in `jobs` and removes $work. Runs on exit; a suite with an EXIT trap of its own calls it there.
cleanup() {
  local job
  for job in "${jobs[@]}"; do kill "$job" 2>/dev/null || true; done
  if [[ -n ${CREDLET_E2E_KEEP-} ]]; then
    printf 'kept: %s\n' "$work"
    return
  fi
  # A process that is shutting down may still write into the directory.
  rm -rf "$work" 2>/dev/null || { sleep 1 && rm -rf "$work"; }
}
trap cleanup EXIT
# KUBECONFIG is the administrator's and for set-up only. Programs under test get a kubeconfig of their own, and no kuberc.
export KUBERC=off
# For the Python peers. No bytecode is written beside the sources.
export PYTHONPATH=$e2e/pylib PYTHONDONTWRITEBYTECODE=1

# stop_job PID: kills a background process and waits for its exit.
stop_job() {
  kill "$1"
  wait "$1" 2>/dev/null || true
}

passed=0 failed=0
rows=$work/rows
# All titles so far, for the message of a text that matches none.
titles=$work/titles
matched='' counts=''
# begin_check SUBJECT TITLE: sets $counts unless CREDLET_E2E_CHECK selects other checks. Ends the suite at the first check that
# does not count after those that do; checks before them run as their set-up.
begin_check() {
  local text="$1: $2"
  printf '%s\n' "$text" >>"$titles"
  counts=
  if [[ -z ${CREDLET_E2E_CHECK-} || ${text,,} == *"${CREDLET_E2E_CHECK,,}"* ]]; then
    counts=yes matched=yes
  elif [[ -n $matched ]]; then
    print_result
    exit "$((failed > 0))"
  fi
}
# record_pass SUBJECT TITLE: counts the check that was begun as passed and adds its row.
record_pass() {
  if [[ -z $counts ]]; then return; fi
  passed=$((passed + 1))
  # `check` prints every title itself; the others only those that were selected.
  if [[ -n ${CREDLET_E2E_CHECK-} && ${FUNCNAME[1]} != check ]]; then printf 'ok   %s: %s\n' "$1" "$2"; fi
  printf '| %s | %s |\n' "$1" "$2" >>"$rows"
}
print_result() { printf '%s passed, %s failed\n' "$passed" "$failed"; }
# add_pass SUBJECT TITLE: a check that has passed, for suites that compare by themselves.
add_pass() {
  begin_check "$1" "$2"
  record_pass "$1" "$2"
}
# is SUBJECT TITLE WANTED GOT: a check that two texts are equal. Exits with 1 if they are not.
is() {
  begin_check "$1" "$2"
  if [[ $3 != "$4" ]]; then
    printf 'FAIL %s: %s\n  wanted %q\n  got    %q\n' "$1" "$2" "$3" "$4" >&2
    exit 1
  fi
  record_pass "$1" "$2"
}
# check TITLE COMMAND…: a check of $subject that the command succeeds. Prints its output if it fails.
check() {
  local title=$1
  shift
  begin_check "$subject" "$title"
  if "$@" >"$work/output" 2>&1; then
    printf 'ok   %s\n' "$title"
    record_pass "$subject" "$title"
  else
    failed=$((failed + 1))
    printf 'FAIL %s\n' "$title"
    sed 's/^/  /' "$work/output"
  fi
}
# has TITLE TEXT PART: a check of $subject that TEXT contains PART.
has() { check "$1" text_contains "$2" "$3"; }
text_contains() { printf 'wanted %s in: %s\n' "$2" "$1" && [[ $1 == *"$2"* ]]; }
# equal TITLE GOT WANTED: a check of $subject that two texts are equal.
equal() { check "$1" text_equals "$2" "$3"; }
text_equals() { printf 'wanted %s\ngot    %s\n' "$2" "$1" && [[ $1 == "$2" ]]; }

# source_part FILE: sources a part of a suite whose checks nothing else depends on. Skips it if CREDLET_E2E_CHECK is a text that
# is in another file of the suite and not in this one.
source_part() {
  local folder
  folder=$(dirname "$1")
  if [[ -n ${CREDLET_E2E_CHECK-} ]] && ! grep -qiF -- "$CREDLET_E2E_CHECK" "$1" && grep -qiF -d skip -- "$CREDLET_E2E_CHECK" "$folder"/*; then
    printf 'skipped %s\n' "$(basename "$1")"
    return
  fi
  . "$1"
}

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
# port_open PORT: whether something listens on this TCP port of 127.0.0.1.
port_open() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# eventually COMMAND…: repeats the command until it succeeds. Fails after 600 attempts, at least two minutes.
eventually() {
  local n
  for ((n = 0; n < 600; n++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  echo "timed out: $*" >&2
  return 1
}

# kubeconfig FILE COMMAND ARGS [CLUSTER-MEMBERS] [USER-MEMBERS]: writes a kubeconfig for $server with the exec plugin COMMAND.
# ARGS is a YAML list. The members are further YAML of the cluster or the user and start with a comma.
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

# username [OPTION…]: prints the user that the API server authenticates `credlet` as, with the kubeconfig $config. Needs
# $credlet, the path of the binary.
username() {
  "$credlet" request -H "Content-Type: application/json" /apis/authentication.k8s.io/v1/selfsubjectreviews --kubeconfig "$config" \
    --data '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}' "$@" </dev/null |
    sed -nE 's/.*"username": ?"([^"]*)".*/\1/p' | head -1
}

# kubectl_version KUBECTL: prints the version of this kubectl, for example v1.37.1.
kubectl_version() { "$1" version --client -o json | sed -nE 's/.*"gitVersion": "([^"]*)".*/\1/p'; }

# runs [PATTERN]: prints how many runs of a test plugin are recorded; the plugins append a line to $work/runs for each run.
runs() { grep -c "${1-}" "$work/runs" || true; }
# reset_runs: forgets the recorded runs.
reset_runs() { : >"$work/runs"; }

# replace_service_account NAME TOKEN: deletes the service account and creates another one of the same name. Returns when the API
# server rejects TOKEN, which it does with a delay because it caches authentications.
replace_service_account() {
  kubectl delete serviceaccount "$1" >/dev/null
  kubectl create serviceaccount "$1" >/dev/null
  eventually token_rejected "$2"
}
# token_rejected TOKEN: whether the API server replies with 401 to this token.
token_rejected() { ! kubectl --token "$1" auth whoami 2>"$work/rejected" && grep -q "must be logged in" "$work/rejected"; }

# start_proxy: starts an HTTP CONNECT and SOCKS5 proxy. Sets $proxy_port and $proxy, its process id; SIGUSR1 to it closes all
# tunnels. Each tunnel is a line in $work/tunnels: kind, host, port.
start_proxy() {
  python3 "$e2e/client/proxy.py" "$work/proxy" >>"$work/tunnels" &
  proxy=$!
  jobs+=("$proxy")
  eventually test -s "$work/proxy"
  proxy_port=$(cat "$work/proxy")
}

# finish SUITE [PEERS [--update]]: prints the result and exits with 1 if a check failed or none passed. With --update, writes the
# part of the suite in docs/compatibility.md: PEERS (names and versions) and a row for each check.
finish() {
  local page=$root/docs/compatibility.md begin="<!-- by e2e/$1/run --update -->" end="<!-- end of e2e/$1 -->"
  print_result
  if [[ -n ${CREDLET_E2E_CHECK-} ]] && ((!passed && !failed)); then
    printf 'no check matches "%s". The checks are:\n' "$CREDLET_E2E_CHECK" >&2
    sed 's/^/  /' "$titles" >&2
  fi
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
    printf '| tested | observed |\n|---|---|\n'
    cat "$rows"
    printf '%s\n' "$end"
  } >"$work/part"
  # The lock is for another suite that writes its part at the same time.
  flock "$e2e" sed -i -e "\\|^$end\$|r $work/part" -e "\\|^$begin\$|,\\|^$end\$|d" "$page"
}
