#!/usr/bin/env bash
# Starts ranks on several hosts without a scheduler, with torchrun's options and variables (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, …). On one
# host alone, `ranktrace run --ranks N -- CMD` does more.
#
#   RANKTRACE_TOKEN=SECRET deploy/torchrun.sh --nnodes 2 --nproc-per-node 8 --node-rank 0 --master-addr HEAD --rdzv-id night-42 -- node train.js   on HEAD
#   RANKTRACE_TOKEN=SECRET deploy/torchrun.sh --nnodes 2 --nproc-per-node 8 --node-rank 1 --master-addr HEAD --rdzv-id night-42 -- node train.js   on the other
#
# Without RANKTRACE_URL the aggregator runs on node 0, on port 7400 (PORT), for as long as the job does: traces lie in ./ranktrace-out there. With
# it (and the RANKTRACE_NATS_* variables of deploy/access/run.RUN.env) ranks use that NATS. A rank that fails ends those of its host.

set -euo pipefail
fail() {
  echo "torchrun.sh: $1" >&2
  exit 2
}
nnodes=1 per_node=1 node_rank=0 master_addr=127.0.0.1 master_port=29500 run=
while [ $# -gt 0 ]; do
  case $1 in
    --nnodes) nnodes=${2:-} ;;
    --nproc-per-node) per_node=${2:-} ;;
    --node-rank) node_rank=${2:-} ;;
    --master-addr) master_addr=${2:-} ;;
    --master-port) master_port=${2:-} ;;
    --rdzv-id) run=${2:-} ;;
    --)
      shift
      break
      ;;
    *) fail "options are --nnodes, --nproc-per-node, --node-rank, --master-addr, --master-port and --rdzv-id, then -- and the command; got \"$1\"" ;;
  esac
  [ $# -ge 2 ] || fail "$1 needs a value"
  shift 2
done
[ $# -gt 0 ] || fail "name the training command after --"
for number in "$nnodes" "$per_node" "$node_rank" "$master_port"; do
  [[ $number =~ ^[0-9]+$ ]] || fail "--nnodes, --nproc-per-node, --node-rank and --master-port are whole numbers, got \"$number\""
done
# 08 is no octal number.
nnodes=$((10#$nnodes)) per_node=$((10#$per_node)) node_rank=$((10#$node_rank))
[ "$per_node" -gt 0 ] || fail "--nproc-per-node must be at least 1"
[ "$node_rank" -lt "$nnodes" ] || fail "--node-rank must be below --nnodes ($nnodes), got $node_rank"
RANKTRACE_RUN=${RANKTRACE_RUN:-$run}
[ -n "$RANKTRACE_RUN" ] || fail "name the run, the same on every host: --rdzv-id night-42"
export RANKTRACE_RUN
PATH="$PWD/node_modules/.bin:$PATH"

aggregator=
ranks=()
# shellcheck disable=SC2317 # called by the trap
end() {
  [ ${#ranks[@]} -eq 0 ] || kill "${ranks[@]}" 2> /dev/null || true
  [ -z "$aggregator" ] || kill "$aggregator" 2> /dev/null || true
}
trap end EXIT
# The first signal ends the ranks and finishes the trace, a second one ends at once.
ended= patience=0
stop() {
  [ -z "$ended" ] || exit "$1"
  ended=$1 patience=$((SECONDS + 3))
}
trap 'stop 143' TERM
trap 'stop 130' INT

log=
if [ -z "${RANKTRACE_URL:-}" ]; then
  [ -n "${RANKTRACE_TOKEN:-}" ] || fail "set RANKTRACE_TOKEN to a secret of yours, the same on every host: ranks show it to the aggregator"
  port=${PORT:-7400}
  export RANKTRACE_URL="ws://$master_addr:$port"
  if [ "$node_rank" -eq 0 ]; then
    log=$(mktemp)
    ranktrace serve --listen "0.0.0.0:$port" --out ranktrace-out 2> >(tee "$log" >&2) &
    aggregator=$!
  fi
  # On node 0 its own word counts: another job's aggregator may have the port.
  listens() {
    if [ -n "$aggregator" ]; then grep -q ': listening on ' "$log"; else timeout 1 bash -c ': < "/dev/tcp/$0/$1"' "$master_addr" "$port"; fi
  }
  # A short job would end before it finds the aggregator. A late aggregator does not stop the training: batches wait in the spool.
  deadline=$((SECONDS + 60))
  until listens 2> /dev/null || [ "$SECONDS" -ge "$deadline" ]; do
    [ -z "$aggregator" ] || kill -0 "$aggregator" 2> /dev/null || {
      echo "torchrun.sh: the aggregator did not start, see above; PORT names another port" >&2
      exit 1
    }
    sleep 0.2 || true
    [ -z "$ended" ] || exit "$ended"
  done
fi

export WORLD_SIZE=$((nnodes * per_node)) LOCAL_WORLD_SIZE=$per_node MASTER_ADDR=$master_addr MASTER_PORT=$master_port
for ((local_rank = 0; local_rank < per_node; local_rank++)); do
  RANK=$((node_rank * per_node + local_rank)) LOCAL_RANK=$local_rank "$@" &
  ranks+=($!)
done

status=0
while [ ${#ranks[@]} -gt 0 ]; do
  sleep 0.2 || true
  # Ctrl-C, and systemd, signal the ranks and the aggregator as well: a second signal would cut off what they send and write.
  [ -z "$ended" ] || [ "$SECONDS" -lt "$patience" ] || kill "${ranks[@]}" 2> /dev/null || true
  running=()
  for rank in "${ranks[@]}"; do
    if kill -0 "$rank" 2> /dev/null; then
      running+=("$rank")
    else
      code=0
      wait "$rank" || code=$?
      # The job ends with the code of the first rank that fails; the others would wait for it.
      if [ "$code" -ne 0 ] && [ "$status" -eq 0 ] && [ -z "$ended" ]; then
        status=$code
        kill "${ranks[@]}" 2> /dev/null || true
      fi
    fi
  done
  ranks=(${running[@]+"${running[@]}"})
done
[ "$status" -ne 0 ] || status=${ended:-0}

if [ -n "$aggregator" ]; then
  # Ranks of other hosts may end a little later: the aggregator writes the trace when all have ended, at the latest when it is stopped.
  for ((tries = 0; tries < 300 && status == 0; tries++)); do
    ! grep -q "run $RANKTRACE_RUN:" "$log" || break
    [ "$nnodes" -gt 1 ] || [ -d "ranktrace-out/$RANKTRACE_RUN" ] || break
    kill -0 "$aggregator" 2> /dev/null && [ -z "$ended" ] || break
    sleep 0.2 || true
  done
  for ((tries = 0; tries < 75; tries++)); do
    [ -n "$ended" ] && kill -0 "$aggregator" 2> /dev/null || break
    sleep 0.2 || true
  done
  kill -TERM "$aggregator" 2> /dev/null || true
  wait "$aggregator" || true
  aggregator=
  rm -f "$log"
  # A job may end before a rank has reached the aggregator, or not use ranktrace at all.
  if [ -d "ranktrace-out/$RANKTRACE_RUN" ]; then
    ranktrace report "ranktrace-out/$RANKTRACE_RUN" || true
  else
    spool=${RANKTRACE_SPOOL_DIRECTORY:-${TMPDIR:-/tmp}/ranktrace-spool-$(id -u)}/$RANKTRACE_RUN
    echo "torchrun.sh: no rank of run \"$RANKTRACE_RUN\" reached the aggregator, so there is no trace; what a rank recorded is on its host, in $spool, for ranktrace merge" >&2
  fi
fi
exit "$status"
