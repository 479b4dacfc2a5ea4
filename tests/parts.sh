#!/bin/sh
# Run parts of `make test`, one after the other, until one fails; say at the end how long each took. Parts that are
# joined by a plus need one processor each: they run side by side.
# The times are also left in _build/test_times.csv, which `make times` puts on the status page.
make=$1
shift
mkdir -p _build
table=_build/test_times.csv
echo "part,seconds" >"$table"
begin=$(date +%s)
failed=
for part in "$@"; do
  echo "== $part"
  start=$(date +%s)
  case $part in *+*) jobs=-j2 ;; *) jobs= ;; esac
  # shellcheck disable=SC2046,SC2086
  "$make" --no-print-directory $jobs BUILT=yes $(echo "$part" | tr + ' ') || failed=$part
  echo "$part,$(($(date +%s) - start))" >>"$table"
  [ -z "$failed" ] || break
done
echo "all,$(($(date +%s) - begin))" >>"$table"
echo
while IFS=, read -r part seconds; do
  [ "$part" = part ] || printf '%-12s %2d min %02d s\n' "$part" $((seconds / 60)) $((seconds % 60))
done <"$table"
[ -z "$failed" ] || { echo "failed: $failed"; exit 1; }
