#!/bin/sh
# Run parts of `make test` and say at the end how long each took. Arguments are stages, one after the other until one
# fails. A stage is a part, or chains of parts that run side by side: unit+book,notebooks is unit beside book and then
# notebooks. Side by side no processor waits while one chain has work for a single one. The first chain is seen as it
# runs, what the others say follows when they are done.
# The times are also left in _build/test_times.csv, which `make times` puts on the status page.
make=$1
shift
mkdir -p _build
table=_build/test_times.csv
echo "part,seconds" >"$table"
begin=$(date +%s)
trap 'trap - TERM; kill 0' INT

chain() { # run parts one after the other until one fails
  for part in $(echo "$1" | tr , ' '); do
    echo "== $part"
    start=$(date +%s)
    "$make" --no-print-directory BUILT=yes "$part" || { echo "$part" >>"$table.failed"; return; }
    echo "$part,$(($(date +%s) - start))" >>"$table"
  done
}

rm -f "$table.failed"
for stage in "$@"; do
  others=
  number=0
  case $stage in *+*) others=$(echo "${stage#*+}" | tr + ' ') ;; esac
  for other in $others; do
    number=$((number + 1))
    echo "== beside: $other (_build/beside$number.log)"
    chain "$other" >"_build/beside$number.log" 2>&1 &
  done
  chain "${stage%%+*}"
  wait
  for k in $(seq "$number"); do cat "_build/beside$k.log"; done
  [ ! -e "$table.failed" ] || break
done
echo "all,$(($(date +%s) - begin))" >>"$table"
echo
while IFS=, read -r part seconds; do
  [ "$part" = part ] || printf '%-12s %2d min %02d s\n' "$part" $((seconds / 60)) $((seconds % 60))
done <"$table"
[ ! -e "$table.failed" ] || { echo "failed: $(tr '\n' ' ' <"$table.failed")"; exit 1; }
