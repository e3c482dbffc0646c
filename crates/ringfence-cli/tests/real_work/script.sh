# What long scripts do: functions, pipes, here-documents, process substitution, traps, background jobs.
set -euo pipefail
work=work
rm -rf "$work"
mkdir -p "$work"/{in,out,tmp}

log() { printf '%s: %s\n' "$1" "$2"; }
fail() { log error "$1" >&2; exit 1; }
count() { wc -l <"$1" | tr -d ' '; }

cleanup() { rm -rf "$work/tmp"; log cleanup done; }
trap cleanup EXIT

# Here-documents, quoted and not.
name=world
cat >"$work/in/plain" <<TEXT
hello $name
$(printf 'from a %s' substitution)
TEXT
cat >"$work/in/quoted" <<'TEXT'
hello $name
TEXT
cat <<-TEXT >"$work/in/tabs"
	indented
	TEXT
log here "$(cat "$work"/in/* | sort | tr '\n' '|')"

# Here-string, arrays, arithmetic.
read -r first rest <<<"one two three"
log string "$first/$rest"
declare -a numbers=()
for ((i = 0; i < 10; i++)); do numbers+=($((i * i))); done
log array "${numbers[*]} last ${numbers[-1]} count ${#numbers[@]}"
declare -A ages=([ann]=31 [bob]=27)
for who in $(printf '%s\n' "${!ages[@]}" | sort); do log map "$who=${ages[$who]}"; done

# Pipes with status.
seq 1 1000 | grep 7 | sort -rn | head -n 5 | paste -sd, -
set +e
false | true
status=("${PIPESTATUS[@]}")
set -e
log pipe "${status[*]}"
{ echo out; echo err >&2; } 2>&1 | sort | tr '\n' ' '
echo
yes | head -n 3 | tr -d '\n' || true
echo

# Process substitution and comparison.
diff <(seq 1 5) <(seq 2 6) && fail 'they differ' || log diff "$?"
comm -12 <(printf 'a\nb\nc\n') <(printf 'b\nc\nd\n') | tr '\n' ' '
echo
while read -r line; do last=$line; done < <(seq 1 100)
log loop "$last"

# Background jobs and their statuses.
pids=()
for n in 1 2 3 4; do
    (
        sleep "0.0$n"
        echo "job $n" >"$work/out/job$n"
        exit "$n"
    ) &
    pids+=($!)
done
codes=()
for pid in "${pids[@]}"; do
    if wait "$pid"; then codes+=(0); else codes+=($?); fi
done
log jobs "${codes[*]} $(cat "$work"/out/job* | tr '\n' ' ')"

# A coprocess and a named pipe.
coproc upper { while read -r line; do echo "${line^^}"; done; }
upper_pid_copy=$upper_PID
echo coprocess >&"${upper[1]}"
read -r answer <&"${upper[0]}"
log coproc "$answer"
exec {upper[1]}>&-
wait "$upper_pid_copy" || true
mkfifo "$work/tmp/fifo"
(seq 1 3 >"$work/tmp/fifo") &
log fifo "$(tr '\n' ' ' <"$work/tmp/fifo")"
wait

# Signals between own processes.
trap 'log signal received' USR1
kill -USR1 $$
(
    trap 'exit 42' TERM
    touch "$work/tmp/ready"
    while :; do sleep 0.01; done
) &
child=$!
until [ -e "$work/tmp/ready" ]; do sleep 0.01; done
kill -TERM "$child"
set +e
wait "$child"
log term "$?"
sleep 5 &
kill -KILL $!
wait $! 2>/dev/null
log kill "$?"
set -e
timeout 0.1 sleep 5 || log timeout "$?"

# Descriptors.
exec 7<>"$work/tmp/descriptor"
echo through >&7
exec 7>&-
log descriptor "$(cat "$work/tmp/descriptor")"
exec 8<"$work/in/plain"
read -r -u 8 line
exec 8<&-
log read "$line"
echo to-stderr 2>/dev/null >&2
[ -e /dev/stdin ] && echo piped | cat /dev/stdin
echo x | tee /dev/null "$work/tmp/tee" >/dev/null
log tee "$(cat "$work/tmp/tee")"

# Names with spaces, newlines and other bytes.
odd=$'with space\nand newline \xff'
echo odd >"$work/tmp/$odd"
find "$work/tmp" -name 'with*' -print0 | xargs -0 cat
for file in "$work/tmp"/with*; do [ "$file" = "$work/tmp/$odd" ] && log odd same; done
ln -s "$odd" "$work/tmp/link"
log link "$(cat "$work/tmp/link")"

# Text tools.
printf '%s\n' b,2 a,1 c,3 | sort -t, -k2 | awk -F, '{ sum += $2; printf "%s ", $1 } END { print sum }'
sed -n '2,3p;4q' <(seq 1 10) | tr '\n' ' '
echo
printf 'x\ty\n' | cut -f2 | od -An -c | tr -s ' '
printf 'aGVsbG8=' | base64 -d
echo
sha256sum </dev/null | cut -c1-16
echo 'scale=3; 22/7' | awk -F'[;=/ ]' '{ print int($NF) }'
date -u -d @86400 +%F
expr 6 \* 7
case $(uname -s) in Linux) log system Linux ;; *) log system other ;; esac

# Recursion, subshell environments, getopts.
factorial() { if (($1 <= 1)); then echo 1; else echo $(($1 * $(factorial $(($1 - 1))))); fi; }
log factorial "$(factorial 10)"
(
    cd "$work/in"
    umask 077
    echo private >private
    stat -c %a private
)
options() {
    local OPTIND=1 flag
    while getopts 'ab:' flag "$@"; do log "option $flag" "${OPTARG:-}"; done
}
options -a -b value
export EXPORTED=yes
bash -c 'log() { echo "child $1"; }; log "$EXPORTED"'
env -i PATH="$PATH" sh -c 'echo "clean ${EXPORTED:-no}"'

# Many processes.
for n in $(seq 1 100); do echo "$n" & done | sort -n | tail -n 1
printf '%s\n' $(seq 1 40) | xargs -P 4 -n 5 echo | wc -w | tr -d ' '
find "$work" -type f ! -name 'with*' | sort | while read -r file; do log file "${file#"$work"/} $(count "$file")"; done

# Strings, patterns, arrays by reference.
path=/usr/local/lib/name.tar.gz
log strip "${path##*/} ${path%/*} ${path%%.*} ${path#*.}"
log replace "${path//\//:} ${path^^} ${path:5:5} ${#path}"
[[ $path =~ ^/([a-z]+)/.*\.(tar)\.gz$ ]] && log regex "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
shopt -s extglob nullglob
log glob "$(echo "$work"/out/job+([12]))"
log braces "$(echo {a..c}{1..2})"
mapfile -t lines < <(printf 'x\ny\nz\n')
log mapfile "${#lines[@]} ${lines[1]}"
reverse() {
    local -n array=$1
    local i
    for ((i = ${#array[@]} - 1; i >= 0; i--)); do printf '%s' "${array[i]}"; done
}
log reverse "$(reverse lines)"
printf -v padded '%05d|%-5s|%x' 42 ab 255
log printf "$padded"

# The first of several jobs, a lock, a deadline on reading.
wait
(sleep 1; exit 1) &
(exit 5) &
set +e
wait -n
log first "$?"
wait
set -e
exec 9>"$work/tmp/lock"
flock 9
(flock --nonblock 9 || log lock held) 9>"$work/tmp/lock"
exec 9>&-
read -r -t 0.05 line < <(exec sleep 1) || log deadline "$([ $? -gt 128 ] && echo passed)"

# A failing command with -e in a subshell, and a trap on errors.
set +e
(
    set -e
    false
    log never reached
)
log errexit "$?"
(
    trap 'log trap "line of $BASH_COMMAND"' ERR
    ls "$work/missing" 2>/dev/null
)
set -e
log end "$SECONDS" >/dev/null
