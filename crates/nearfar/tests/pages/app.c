/* One thread writes rings of cells, and then each thread walks a part of them: serial first touch.
 * Stores past the caches leave the cells in memory, as a larger program's own size does. */
#include <emmintrin.h>
#include <stdio.h>
#include <stdlib.h>

struct cell {
    struct cell *next;
    char rest[56];
};
enum { RINGS = 8, CELLS = 1 << 14 };
/* A parameter, as a static pointer that is sampled would be a second object named grid. */

__attribute__((noinline)) static struct cell *walk(struct cell *grid, int ring) {
    struct cell *at = grid + ring * CELLS;
    for (int step = 0; step < CELLS; step++)
        at = at->next;
    return at;
}

int main(void) {
    int back = 0;
    struct cell *grid = malloc(RINGS * CELLS * sizeof *grid);
    for (int i = 0; i < RINGS * CELLS; i++) {
        struct cell *next = grid + i / CELLS * CELLS + (i + 10007) % CELLS;
        _mm_stream_si64((long long *)&grid[i].next, (long long)next);
    }
#pragma omp parallel for schedule(static) reduction(+ : back)
    for (int ring = 0; ring < RINGS; ring++)
        back += walk(grid, ring) == grid + ring * CELLS;
    printf("throughput: %.1f\n", back + 4.5);
    return back != RINGS;
}
