#include <pthread.h>
#include <stdlib.h>
static double field[1 << 17];
static int rounds = 12;
static double sums[2][8];
static void *use(void *which) {
    long half = (long)which;
    double sum = 0;
    for (int round = 0; round < rounds; round++)
        for (int i = half << 16; i < (half + 1) << 16; i++)
            sum += field[i] * 1.5;
    sums[half][0] = sum;
    return NULL;
}
int main(int argc, char **argv) {
    if (argc > 1)
        rounds = atoi(argv[1]);
    for (int i = 0; i < 1 << 17; i++)
        field[i] = i;
    pthread_t threads[2];
    for (long t = 0; t < 2; t++)
        pthread_create(&threads[t], NULL, use, (void *)t);
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t], NULL);
    return sums[0][0] > sums[1][0];
}
