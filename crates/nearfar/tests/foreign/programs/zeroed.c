/* A zeroed array of the program itself, which main fills and two threads use by halves.
 * zeroed ELEMENTS ITERATIONS */
#include <stdio.h>
#include <stdlib.h>

static double grid[16 << 20];

int main(int count, char **words) {
    long n = atol(count > 1 ? words[1] : "200000");
    int iterations = atoi(count > 2 ? words[2] : "4");
    for (long i = 0; i < n; i++)
        grid[i] = i; /* placed */
    for (int k = 0; k < iterations; k++)
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            grid[i] = grid[i] * 0.5 + k; /* used */
    return printf("%f\n", grid[7]) < 0;
}
