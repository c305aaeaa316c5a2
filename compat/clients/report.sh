# Sourced by the shell scripts that drive a client: what they report, what they need, and common checks.

failures=0
ok() { echo "ok $*"; }
fail() { echo "FAIL $1: ${2//$'\n'/ }"; failures=$((failures + 1)); }

# same NAME WANT GOT
same() { if [ "$2" = "$3" ]; then ok "$1"; else fail "$1" "want [${2:0:300}], got [${3:0:300}]"; fi; }

# has NAME PATTERN TEXT: an extended regular expression that a line of TEXT must match
has() { if grep -qE -- "$2" <<<"$3"; then ok "$1"; else fail "$1" "no line like [$2] in [${3:0:500}]"; fi; }

# stored_codec TOPIC: the codec in the attributes of the first batch of partition 0, as it lies on disk
stored_codec() {
  local codecs=(none gzip snappy lz4 zstd) n
  n=$(od -An -tu1 -j22 -N1 "$BROKER_DIR/data/$1-0/00000000000000000000.log")
  echo "${codecs[$((n & 7))]}"
}

# until_true SECONDS COMMAND...: repeats the command until it succeeds
until_true() {
  local end=$((SECONDS + $1)); shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}

# needs COMMAND[=PACKAGE]...: installs the packages of the commands that are missing; the script ends
# as skipped where that cannot be done
needs() {
  local pair packages=()
  for pair in "$@"; do command -v "${pair%=*}" >/dev/null || packages+=("${pair#*=}"); done
  [ ${#packages[@]} -gt 0 ] || return 0
  export DEBIAN_FRONTEND=noninteractive
  { flock 9 && apt-get update -q && apt-get install -qy --no-install-recommends "${packages[@]}"; } 9>"$CACHE/lock" >&2
  for pair in "$@"; do
    command -v "${pair%=*}" >/dev/null || { echo "skip: no ${pair%=*} here, and ${pair#*=} cannot be installed"; exit 0; }
  done
}

# has_kafka: whether Kafka's tools can be used. A script that fetches them does so now, once for long.
# Then come nearly a hundred starts of a JVM: an archive of the classes they load takes almost half off each.
has_kafka() {
  [ -x "$KAFKA" ] || return
  needs java=default-jdk-headless
  {
    flock 9
    timeout 250 "$CLIENTS/kafka" topics --version || return
    local archive flags="-Xmx256M -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    archive=$CACHE/kafka-$(java -version 2>&1 | md5sum | cut -c1-8).jsa
    [ -s "$archive" ] || KAFKA_TOOL_FLAGS="$flags -XX:ArchiveClassesAtExit=$archive" timeout 60 \
      "$CLIENTS/kafka" console-consumer --bootstrap-server "$BROKER" --topic warm --timeout-ms 3000
    [ ! -s "$archive" ] || flags+=" -XX:SharedArchiveFile=$archive -Xlog:cds=off -Xlog:cds+dynamic=off"
    export KAFKA_TOOL_FLAGS=$flags
  } 9>"$CACHE/lock" >&2 </dev/null
}
