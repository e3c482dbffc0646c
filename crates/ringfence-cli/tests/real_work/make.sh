# A C project of several files, built in parallel, tested, changed and built again.
set -eu
mkdir -p src
cat >src/stack.h <<'C'
struct stack { int size; int items[64]; };
int push(struct stack *stack, int item);
int pop(struct stack *stack);
C
cat >src/stack.c <<'C'
#include "stack.h"
int push(struct stack *stack, int item) { return stack->size < 64 ? (stack->items[stack->size++] = item, 0) : -1; }
int pop(struct stack *stack) { return stack->size > 0 ? stack->items[--stack->size] : -1; }
C
cat >src/main.c <<'C'
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include "stack.h"
static void *square(void *number) { *(double *)number = pow(*(double *)number, 2); return number; }
int main(void) {
    struct stack stack = {0};
    pthread_t threads[4];
    double numbers[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, square, &numbers[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < 4; i++) push(&stack, (int)numbers[i]);
    for (int i = 0; i < 4; i++) printf("%d\n", pop(&stack));
    return 0;
}
C
cat >Makefile <<'MAKE'
objects = out/stack.o out/main.o
out/program: $(objects)
	$(CC) -o $@ $^ -lm -pthread
out/%.o: src/%.c src/stack.h
	@mkdir -p out
	$(CC) -O1 -Wall -Werror -c -o $@ $<
test: out/program
	./out/program | sort -n | tr '\n' ' '
.PHONY: test
MAKE
make --silent --jobs=2
make --silent test
touch -d '2001-01-01' src/*.c src/*.h
make --question && echo 'up to date'
touch src/stack.h
make --dry-run | grep -c -- '-c -o'
make --silent --jobs=2 && make --silent test
