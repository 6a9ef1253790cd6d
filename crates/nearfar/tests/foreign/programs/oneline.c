/* Two threads' counters are fields of one small struct, in one cache line.
 * oneline ADDITIONS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    volatile long done, failed;
} state __attribute__((aligned(64)));
static long additions;

static void *finish(void *unused) {
    for (long i = 0; i < additions; i++)
        state.done++; /* used */
    return unused;
}

static void *fail(void *unused) {
    for (long i = 0; i < additions; i++)
        state.failed++;
    return unused;
}

int main(int words, char **word) {
    additions = atol(words > 1 ? word[1] : "100000");
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, finish, NULL);
    pthread_create(&threads[1], NULL, fail, NULL);
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    return printf("%ld\n", state.done + state.failed) < 0;
}
