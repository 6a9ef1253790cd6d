/* Two threads' counters are fields of one small struct, in one cache line.
 * oneline ADDITIONS [SECONDS]: again and again until each thread has used so much CPU time */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct {
    volatile long done, failed;
} state __attribute__((aligned(64)));
static long additions;
static double seconds;

static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void *finish(void *unused) {
    do {
        for (long i = 0; i < additions; i++)
            state.done++; /* used */
    } while (used() < seconds);
    return unused;
}

static void *fail(void *unused) {
    do {
        for (long i = 0; i < additions; i++)
            state.failed++; /* used */
    } while (used() < seconds);
    return unused;
}

int main(int words, char **word) {
    additions = atol(words > 1 ? word[1] : "100000");
    seconds = atof(words > 2 ? word[2] : "0");
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, finish, NULL);
    pthread_create(&threads[1], NULL, fail, NULL);
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    return printf("%ld\n", state.done + state.failed) < 0;
}
