#!/usr/bin/env bash
# Makes the files that a cluster's NATS (nats-cluster.conf) needs: an authority and a certificate for BROKER, and users with passwords.
#
#   ./make-access.sh BROKER[,NAME…] RUN…        BROKER: name or address by which ranks reach the NATS host; the first one is in their URL
#   ./make-access.sh BROKER --all-runs          one user for ranks of every run, where run names are not known beforehand
#
#   access/ca.pem             to every host that connects        access/users.conf      \
#   access/aggregator.env     to the aggregator                  access/server.pem       > to the NATS host
#   access/token              to people who read and capture     access/server-key.pem  /
#   access/read-token         to Prometheus: reads alone
#   access/run.RUN.env        to the ranks of that run           access/reader.env      to subscribers of alerts
#   access/grafana.env        to Grafana's container: the first password of its user admin
#
# Existing files are kept, so that a run can be added later (then: nats-server --signal reload); the names must be some of the certificate's. To take
# a run's access away, remove its files in access/ and access/users/, run this again and reload. RANKTRACE_ACCESS names another directory than
# access/ beside this script.
set -euo pipefail
umask 077

fail() {
  echo "make-access.sh: $1" >&2
  exit 2
}

[ $# -ge 1 ] || fail "name the host of NATS, then runs: ./make-access.sh broker.example night-42"
names=$1
shift
[[ $names =~ ^[A-Za-z0-9.:-]+(,[A-Za-z0-9.:-]+)*$ ]] || fail "BROKER must be host names or addresses with commas between, got \"$names\""
broker=${names%%,*}
case $broker in *:*) broker="[$broker]" ;; esac
for run in "$@"; do
  [[ $run == --all-runs || $run =~ ^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$ ]] ||
    fail "RUN must be 1 to 64 letters, digits, \"_\" or \"-\" and not begin with \"-\", got \"$run\""
done
access=${RANKTRACE_ACCESS:-$(cd "$(dirname "$0")" && pwd)/access}
# The path goes into files that shells, systemd and Docker read, each with its own quoting.
[[ $access =~ ^/[A-Za-z0-9_./-]+$ ]] || fail "the directory must be an absolute path of letters, digits, \"_\", \".\", \"-\", got \"$access\""
mkdir -p "$access/users"
cd "$access"

alternatives=""
for name in ${names//,/ }; do
  case $name in
    *:* | [0-9]*.[0-9]*.[0-9]*.*[0-9]) kind=IP check=-checkip ;;
    *) kind=DNS check=-checkhost ;;
  esac
  alternatives+=",$kind:$name"
  [ ! -e server.pem ] || openssl x509 -in server.pem -noout $check "$name" | grep -q 'does match' ||
    fail "the certificate in $access is not for \"$name\": remove its server.pem to make one for \"$names\"; the .env files keep their RANKTRACE_URL"
done
if [ ! -e server.pem ]; then
  curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
  if [ ! -e ca.pem ]; then
    openssl req -x509 "${curve[@]}" -days 3650 -subj "/CN=ranktrace authority" -keyout ca-key.pem -out ca.pem \
      -addext "keyUsage=critical,keyCertSign,cRLSign" 2> /dev/null || fail "openssl cannot make the authority"
  fi
  openssl req "${curve[@]}" -subj "/CN=ranktrace broker" -keyout server-key.pem -out request.pem 2> /dev/null
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:false\n' "${alternatives#,}" > extensions.txt
  openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 825 -extfile extensions.txt -out server.pem \
    2> /dev/null || fail "openssl cannot make a certificate for \"$names\""
  rm request.pem extensions.txt
fi
# Certificates are no secrets, and containers read them as users of their own.
chmod 644 ca.pem server.pem
for token in token read-token; do [ -e $token ] || openssl rand -hex 24 > $token; done
[ -e grafana.env ] || echo "GF_SECURITY_ADMIN_PASSWORD=$(openssl rand -hex 24)" > grafana.env

# add_user NAME PUBLISH SUBSCRIBE [LINE…]: its entry in users/NAME, and NAME.env with the environment of its process.
add_user() {
  local name=$1 publish=$2 subscribe=$3 password
  shift 3
  [ ! -e "users/$name" ] || return 0
  password=$(openssl rand -hex 24)
  printf '%s\n' "RANKTRACE_NATS_USER=$name" "RANKTRACE_NATS_PASS=$password" "RANKTRACE_NATS_TLS_CA=$access/ca.pem" \
    "RANKTRACE_URL=tls://$broker:4222" "$@" > "$name.env"
  printf '  { user: "%s", password: "%s", permissions: {\n      publish: %s\n      subscribe: [%s]\n  } }\n' \
    "$name" "$password" "$publish" "$subscribe" > "users/$name"
}

# JetStream's requests of an aggregator: make, see, bound and purge the stream of batches, keep consumers of its own on it, see all, acknowledge.
api="\$JS.API"
stream="\"$api.INFO\", \"$api.STREAM.INFO.RANKTRACE\", \"$api.STREAM.CREATE.RANKTRACE\", \"$api.STREAM.UPDATE.RANKTRACE\", \"$api.STREAM.PURGE.RANKTRACE\""
consumers="\"$api.CONSUMER.LIST.RANKTRACE\", \"$api.CONSUMER.*.RANKTRACE.>\", \"$api.CONSUMER.DURABLE.CREATE.RANKTRACE.>\", \"$api.CONSUMER.MSG.NEXT.RANKTRACE.>\""
answers="\"ranktrace.v1.*.control\", \"ranktrace.v1.*.alert\", \"ranktrace.v1.*.inbox.>\", \"\$JS.ACK.RANKTRACE.>\""
add_user aggregator "[$stream, $consumers, $answers]" '"ranktrace.v1.*.clock", "ranktrace.inbox.>"' "RANKTRACE_TOKEN=$(cat token)" \
  "RANKTRACE_READ_TOKEN=$(cat read-token)"
# An empty list would permit everything.
add_user reader '{ deny: ">" }' '"ranktrace.v1.*.alert"'
# ranks USER SUBJECT [LINE…]: batches and clock pings out; control messages and answers in.
ranks() {
  local user=$1 run=$2
  shift 2
  add_user "$user" "[\"ranktrace.v1.$run.batch.*\", \"ranktrace.v1.$run.clock\"]" \
    "\"ranktrace.v1.$run.control\", \"ranktrace.v1.$run.inbox.>\"" "$@"
}
for run in "$@"; do
  if [ "$run" = --all-runs ]; then ranks all-runs '*'; else ranks "run.$run" "$run" "RANKTRACE_RUN=$run"; fi
done

{
  echo 'users: ['
  cat users/*
  echo ']'
} > users.conf.new
mv users.conf.new users.conf
echo "access is in $access"
