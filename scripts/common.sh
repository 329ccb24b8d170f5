# Sourced by the scripts beside it: where things are, and how steps are run and reported.
# A step is one line when it works; its whole output follows when it does not.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
exec </dev/null
export LC_ALL=C.UTF-8

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 2; }

# step TEXT COMMAND...: runs quietly; prints the text, and the time when that is over a second. A long step shows a sign
# of life each minute: the last line of its output.
step() {
  local text="$1" log status=0 begin=$SECONDS next pid
  shift
  log="$(mktemp)"
  "$@" >"$log" 2>&1 &
  pid=$!
  # A background job does not see Ctrl-C by itself.
  trap 'kill "$pid" 2>/dev/null; rm -f "$log"; exit 130' INT TERM
  next=$((SECONDS + 60))
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS >= next)); then
      say "  ... $text, $((SECONDS - begin)) s: $(tail -n 1 "$log" | cut -c 1-100)"
      next=$((SECONDS + 60))
    fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  if ((status != 0)); then
    say "FAILED after $((SECONDS - begin)) s: $text"
    say "  command: $*"
    # Of a build only what went wrong; of the rest everything.
    if grep -q '^FAILED: ' "$log"; then
      sed -n '/^FAILED: /,$p' "$log" | grep -v '^\[[0-9]*/[0-9]*\] ' | head -n 200
    else
      tail -n 200 "$log"
    fi
    rm -f "$log"
    exit "$status"
  fi
  rm -f "$log"
  say "$text ($((SECONDS - begin)) s)"
}

jobs_count() { nproc 2>/dev/null || echo 2; }

# configure PRESET: only when there is no build tree yet; ninja configures again by itself when CMake files change.
configure() {
  [ -f "build/$1/build.ninja" ] || step "configured build/$1" cmake --preset "$1"
}
