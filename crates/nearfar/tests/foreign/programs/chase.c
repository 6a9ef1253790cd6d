/* Two threads follow one chain through a table in random order; main filled it.
 * chase ELEMENTS STEPS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static size_t elements, steps, sum[2][64];
static size_t *next;

static void *follow(void *which) {
    size_t at = (size_t)which * (elements / 2);
    for (size_t i = 0; i < steps; i++)
        at = next[at]; /* used */
    sum[(size_t)which][0] = at;
    return NULL;
}

int main(int count, char **words) {
    elements = strtoul(count > 1 ? words[1] : "100000", NULL, 10);
    steps = strtoul(count > 2 ? words[2] : "100000", NULL, 10);
    next = malloc(elements * sizeof *next);
    for (size_t i = 0; i < elements; i++)
        next[i] = i; /* placed */
    /* Sattolo: one cycle through all. */
    unsigned long long seed = 1;
    for (size_t i = elements - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t other = (seed >> 20) % i, kept = next[i];
        next[i] = next[other];
        next[other] = kept;
    }
    pthread_t threads[2];
    for (size_t t = 0; t < 2; t++) pthread_create(&threads[t], NULL, follow, (void *)t);
    for (size_t t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    return printf("%zu\n", sum[0][0] + sum[1][0]) < 0;
}
