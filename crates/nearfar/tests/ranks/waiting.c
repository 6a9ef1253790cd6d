/* Two ranks that reduce arrays by themselves, the first four times as many, and meet. Each prints the CPU time that it spent outside
   the kernel, and what of it in the barrier. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static double user(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_utime.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* 2 MiB, which a cache holds of both ranks: from memory, each would be slower while the other works. */
    int n = 1 << 17, times = rank == 0 ? 4 : 1;
    double *from = malloc(n * sizeof *from), *to = malloc(n * sizeof *to);
    for (int i = 0; i < n; i++)
        from[i] = to[i] = i;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = user(), waited = 0, until = MPI_Wtime() + 2;
    for (int more = 1; more;) {
        for (int i = 0; i < 64 * times; i++)
            MPI_Reduce_local(from, to, n, MPI_DOUBLE, MPI_SUM);
        double before = user();
        MPI_Barrier(MPI_COMM_WORLD);
        waited += user() - before;
        more = MPI_Wtime() < until;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    printf("rank %d used %.3f waited %.3f\n", rank, user() - begin, waited);
    MPI_Finalize();
    return 0;
}
