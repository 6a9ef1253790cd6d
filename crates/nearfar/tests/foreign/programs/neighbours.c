/* Each thread counts in its own int of one array.
 * neighbours ADDITIONS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile int *counts;
static long additions;

static void *count(void *which) {
    for (long i = 0; i < additions; i++)
        counts[(size_t)which]++; /* used */
    return NULL;
}

int main(int words, char **word) {
    additions = atol(words > 1 ? word[1] : "100000");
    counts = calloc(16, sizeof *counts);
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, count, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    return printf("%d\n", counts[0] + counts[1]) < 0;
}
