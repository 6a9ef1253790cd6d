// MPI + OpenMP: one thread of each rank initialises, all of them read. Arguments: MiB, rounds, and a number: every
// eighth rank from that one on kills itself before the ranks meet.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t n = (size_t)atoi(argv[1]) << 17;
    int rounds = atoi(argv[2]);
    double *field = malloc(n * sizeof *field);
    for (size_t i = 0; i < n; i++)
        field[i] = i % 7;
    double sum = 0;
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel for reduction(+ : sum) schedule(static)
        for (size_t i = 0; i < n; i += 8) // one of each line: memory is waited for, not the additions
            sum += field[i] * 1.0001;
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
