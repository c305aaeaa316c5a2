# Sourced by the shell scripts that drive a client: what they report, and common checks.

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
