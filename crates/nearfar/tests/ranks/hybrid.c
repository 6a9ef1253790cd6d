// MPI + OpenMP: one thread of each rank initialises, all of them read. Arguments: MiB, rounds, and a number: every
// eighth rank from that one on kills itself before the ranks meet. Each line says which one comes next, in an order that no
// prefetcher guesses (with steps of 10,007 lines a Zen 5 waited little), so that memory is waited for whatever the host;
// a round follows an eighth of them.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { RINGS = 64 };
struct line {
    struct line *next;
    char rest[56];
};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t n = ((size_t)atoi(argv[1]) << 14) / RINGS;
    int rounds = atoi(argv[2]);
    struct line *field = malloc(RINGS * n * sizeof *field);
    struct line *at[RINGS];
    unsigned long random = 1;
    for (size_t i = 0; i < RINGS * n; i++)
        field[i].next = field + i;
    // Sattolo's shuffle: each ring is one cycle.
    for (size_t i = RINGS * n - 1; i > 0; i--) {
        random = random * 6364136223846793005 + 1442695040888963407;
        if (i % n == 0)
            continue;
        struct line *other = field + i / n * n + (random >> 33) % (i % n);
        struct line *next = field[i].next;
        field[i].next = other->next;
        other->next = next;
    }
    for (int ring = 0; ring < RINGS; ring++)
        at[ring] = field + ring * n;
    double sum = 0;
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel for reduction(+ : sum) schedule(static)
        for (int ring = 0; ring < RINGS; ring++) {
            struct line *line = at[ring];
            for (size_t i = 0; i < n / 8; i++)
                line = line->next;
            at[ring] = line;
            sum += 1;
        }
    }
    if (argc > 3 && rank % 8 == atoi(argv[3]))
        raise(SIGKILL);
    double all = 0;
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: %g\n", size, all);
    free(field);
    MPI_Finalize();
    return 0;
}
