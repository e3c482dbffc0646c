# Tracing own children: strace, gdb.
set -eu
cat >program.c <<'C'
#include <stdio.h>
#include <unistd.h>
static int answer(int n) { return n * 2; }
int main(void) { printf("%d\n", answer(21)); fflush(stdout); return access("/missing", F_OK) == 0; }
C
gcc -g -O0 -o program program.c
strace -f -e trace=access,faccessat,faccessat2 -o trace ./program
grep -c '"/missing"' trace
strace -c -o summary sh -c './program >/dev/null'
grep -c total summary
gdb --quiet --batch -nx -iex 'set debuginfod enabled off' -ex 'break answer' -ex run -ex 'print n' -ex 'print n * 2' -ex continue ./program 2>/dev/null |
    grep -E '^(\$[0-9]|42|Breakpoint 1, answer)'
