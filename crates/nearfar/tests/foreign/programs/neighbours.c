/* Each thread counts in its own int of one array.
 * neighbours ADDITIONS [SECONDS]: again and again until each thread has used so much CPU time */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile int *counts;
static long additions;
static double seconds;

static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void *count(void *which) {
    do {
        for (long i = 0; i < additions; i++)
            counts[(size_t)which]++; /* used */
    } while (used() < seconds);
    return NULL;
}

int main(int words, char **word) {
    additions = atol(words > 1 ? word[1] : "100000");
    seconds = atof(words > 2 ? word[2] : "0");
    counts = calloc(16, sizeof *counts);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, count, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    return printf("%d\n", counts[0] + counts[1]) < 0;
}
