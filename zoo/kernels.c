/* Programs whose answer is known: kernels written down from their public descriptions, each with its data initialised
 * by one thread (serial) or by those that use them (parallel), in any size.
 *
 *   kernels NAME serial|parallel KIB REPETITIONS
 *
 * KIB is the size of the data in all. Prints a checksum.
 *
 *   ep         Gaussian pairs by acceptance and rejection, a private buffer a thread (NAS Parallel Benchmarks, EP)
 *   triad      a = b + s c (STREAM)
 *   jacobi     seven-point stencil on a cube, two grids in turns
 *   aos        the same on one array of structures of both grids
 *   spmv       y = A x, compressed rows, 16 random columns each (the kernel of NAS CG)
 *   is         counting sort: keys, private histograms, ranks (NAS IS)
 *   bfs        breadth-first search over a random graph, level by level
 *   join       probe of a hash table that one relation built by another
 *   shared     a histogram that all threads add to atomically
 *   private    the same with a histogram a thread
 *   table      random look-ups in a table that is never written
 *   rows       each thread sums its own rows of a matrix again and again
 *   histogram  bytes counted in a histogram a thread
 *   transpose  b[j][i] = a[i][j] without tiles
 *   fft        passes of a radix-2 fast Fourier transform in place (Cooley and Tukey), without bit reversal
 *   lu         LU decompositions of many matrices of 64 by 64 (Doolittle, no pivots)
 *   trisolve   a sparse lower triangular system, level by level, 8 entries of earlier levels a row
 *   sort       passes of a bottom-up merge sort
 *   nbody      forces of all bodies on 16 a repetition
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/nearfar.h"

static int parallel;

static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void *memory(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) {
        perror("malloc");
        exit(2);
    }
    return p;
}

/* Every loop that initialises is this one: by one thread, or divided as the loops that use the data. */
#define FILL(n, statement)                                                                                             \
    _Pragma("omp parallel for schedule(static) if (parallel)") for (long i = 0; i < (n); i++) { statement; }

static double ep(long kib, long reps) {
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        long n = kib * 1024 / 8 / omp_get_num_threads();
        double *x = memory(n * sizeof *x);
#pragma omp for schedule(static)
        for (long r = 0; r < reps; r++) {
            uint64_t s = 271828183u + 2654435761u * (uint64_t)r;
            for (long i = 0; i < n; i++) {
                s = s * 1220703125u & ((1ull << 46) - 1);
                x[i] = 2 * (s / (double)(1ull << 46)) - 1;
            }
            for (long i = 0; i + 1 < n; i += 2) {
                double t = x[i] * x[i] + x[i + 1] * x[i + 1];
                if (t <= 1 && t > 0) sum += sqrt(-2 * log(t) / t) * fabs(x[i]);
            }
        }
        free(x);
    }
    return sum;
}

static double triad(long kib, long reps) {
    long n = kib * 1024 / 24;
    double *a = memory(n * 8), *b = memory(n * 8), *c = memory(n * 8);
    FILL(n, (a[i] = 0, b[i] = i % 5, c[i] = i % 7))
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) a[i] = b[i] + 3 * c[i];
    }
    nearfar_end();
    return a[n / 2] + a[n - 1];
}

static double jacobi(long kib, long reps) {
    long n = (long)cbrt(kib * 1024 / 16.0), m = n * n;
    double *u = memory(n * m * 8), *v = memory(n * m * 8);
    FILL(n, for (long k = 0; k < m; k++) u[i * m + k] = v[i * m + k] = (i + k) % 11)
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) {
            if (i == 0 || i == n - 1) continue;
            for (long j = 1; j < n - 1; j++)
                for (long k = 1; k < n - 1; k++) {
                    long p = i * m + j * n + k;
                    v[p] = (u[p - 1] + u[p + 1] + u[p - n] + u[p + n] + u[p - m] + u[p + m]) / 6;
                }
        }
        double *w = u;
        u = v, v = w;
    }
    nearfar_end();
    return u[n / 2 * m + m / 2];
}

static double aos(long kib, long reps) {
    long n = (long)cbrt(kib * 1024 / 16.0), m = n * n;
    struct cell {
        double of[2];
    } *g = memory(n * m * sizeof *g);
    FILL(n, for (long k = 0; k < m; k++) g[i * m + k].of[0] = g[i * m + k].of[1] = (i + k) % 11)
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
        int from = r & 1, to = !from;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) {
            if (i == 0 || i == n - 1) continue;
            for (long j = 1; j < n - 1; j++)
                for (long k = 1; k < n - 1; k++) {
                    struct cell *c = g + i * m + j * n + k;
                    c->of[to] = (c[-1].of[from] + c[1].of[from] + c[-n].of[from] + c[n].of[from] + c[-m].of[from]
                                 + c[m].of[from]) / 6;
                }
        }
    }
    nearfar_end();
    return g[n / 2 * m + m / 2].of[reps & 1];
}

static double spmv(long kib, long reps) {
    enum { ROW = 16 };
    long n = kib * 1024 / (ROW * 12 + 16);
    double *value = memory(n * ROW * 8), *x = memory(n * 8), *y = memory(n * 8);
    int32_t *column = memory(n * ROW * 4);
    FILL(n, (x[i] = 1, y[i] = 0); for (long k = 0; k < ROW; k++) {
        value[i * ROW + k] = 1.0 / (1 + k);
        column[i * ROW + k] = (int32_t)(mixed(i * ROW + k) % n);
    })
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) {
            double s = 0;
            for (long k = 0; k < ROW; k++) s += value[i * ROW + k] * x[column[i * ROW + k]];
            y[i] = s;
        }
    }
    nearfar_end();
    return y[n / 2];
}

static double is(long kib, long reps) {
    enum { BUCKETS = 1024 };
    long n = kib * 1024 / 8;
    int32_t *key = memory(n * 4), *rank = memory(n * 4);
    FILL(n, (key[i] = (int32_t)(mixed(i) % BUCKETS), rank[i] = 0))
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel
        {
            int32_t count[BUCKETS] = {0};
#pragma omp for schedule(static)
            for (long i = 0; i < n; i++) count[key[i]]++;
            for (int b = 1; b < BUCKETS; b++) count[b] += count[b - 1];
#pragma omp for schedule(static)
            for (long i = 0; i < n; i++) rank[i] = --count[key[i]];
        }
    }
    nearfar_end();
    return rank[n / 2];
}

static double bfs(long kib, long reps) {
    enum { DEGREE = 8 };
    long n = kib * 1024 / (DEGREE * 4 + 12), reached = 0;
    int32_t *edge = memory(n * DEGREE * 4), *depth = memory(n * 4), *now = memory(n * 4), *next = memory(n * 4);
    FILL(n, for (long k = 0; k < DEGREE; k++) edge[i * DEGREE + k] = (int32_t)(mixed(i * DEGREE + k) % n);
         (depth[i] = -1, now[i] = next[i] = 0))
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++) depth[i] = -1;
        long here = 1, there;
        now[0] = (int32_t)(mixed(r) % n), depth[now[0]] = 0, reached++;
        for (int level = 1; here; level++, here = there) {
            there = 0;
#pragma omp parallel for schedule(static)
            for (long i = 0; i < here; i++)
                for (long k = 0; k < DEGREE; k++) {
                    int32_t to = edge[(long)now[i] * DEGREE + k], unseen = -1;
                    if (__atomic_load_n(&depth[to], __ATOMIC_RELAXED) == -1
                        && __atomic_compare_exchange_n(&depth[to], &unseen, level, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                        next[__atomic_fetch_add(&there, 1, __ATOMIC_RELAXED)] = to;
                }
            int32_t *swap = now;
            now = next, next = swap, reached += there;
        }
    }
    nearfar_end();
    return reached;
}

static double join(long kib, long reps) {
    long slots = 1;
    while (slots * 2 * 32 <= kib * 1024) slots *= 2;
    long n = slots, found = 0;
    uint64_t *table = memory(slots * 16), *probe = memory(n * 16);
    FILL(slots, (table[2 * i] = mixed(i), table[2 * i + 1] = i))
    FILL(n, (probe[2 * i] = mixed(mixed(i) % slots), probe[2 * i + 1] = i))
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel for schedule(static) reduction(+ : found)
        for (long i = 0; i < n; i++) {
            uint64_t at = mixed(probe[2 * i] + r) & (slots - 1);
            found += table[2 * at] == probe[2 * i] || table[2 * at + 1] == probe[2 * i + 1];
        }
    }
    nearfar_end();
    return found;
}

static double shared(long kib, long reps) {
    long n = kib * 1024 / 8;
    long *count = memory(n * 8);
    FILL(n, count[i] = 0)
    nearfar_begin();
#pragma omp parallel for schedule(static)
    for (long i = 0; i < reps * 1000; i++)
        __atomic_fetch_add(&count[mixed(i) % n], 1, __ATOMIC_RELAXED);
    nearfar_end();
    return count[n / 2];
}

static double private(long kib, long reps) {
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        long n = kib * 1024 / 8 / omp_get_num_threads();
        long *count = memory(n * 8);
        memset(count, 0, n * 8);
#pragma omp for schedule(static)
        for (long i = 0; i < reps * 1000; i++) count[mixed(i) % n]++;
        sum += count[n / 2];
        free(count);
    }
    return sum;
}

static double table(long kib, long reps) {
    long n = kib * 1024 / 8;
    double *x = memory(n * 8), sum = 0;
    FILL(n, x[i] = i % 13)
    nearfar_begin();
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (long i = 0; i < reps * 1000; i++) sum += x[mixed(i) % n];
    nearfar_end();
    return sum;
}

static double rows(long kib, long reps) {
    long n = 64, m = kib * 1024 / 8 / n;
    double *x = memory(n * m * 8), sum = 0;
    FILL(n, for (long k = 0; k < m; k++) x[i * m + k] = k % 3)
    nearfar_begin();
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (long i = 0; i < n; i++)
        for (long r = 0; r < reps; r++)
            for (long k = 0; k < m; k++) sum += x[i * m + k] * (r & 3);
    nearfar_end();
    return sum;
}

static double histogram(long kib, long reps) {
    long n = kib * 1024, all[256] = {0};
    unsigned char *text = memory(n);
    FILL(n, text[i] = (unsigned char)mixed(i))
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel
        {
            long own[256] = {0};
#pragma omp for schedule(static)
            for (long i = 0; i < n; i++) own[text[i]]++;
#pragma omp critical
            for (int b = 0; b < 256; b++) all[b] += own[b];
        }
    }
    nearfar_end();
    return all[7];
}

static double transpose(long kib, long reps) {
    long n = (long)sqrt(kib * 1024 / 16.0);
    double *a = memory(n * n * 8), *b = memory(n * n * 8);
    FILL(n, for (long k = 0; k < n; k++) (a[i * n + k] = i - k, b[i * n + k] = 0))
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            for (long j = 0; j < n; j++) b[i * n + j] = a[j * n + i];
    }
    nearfar_end();
    return b[n + 5];
}

static double fft(long kib, long reps) {
    long n = 1;
    while (n * 2 * 20 <= kib * 1024) n *= 2;
    double *x = memory(n * 16), *turn = memory(n / 2 * 8);
    FILL(n, (x[2 * i] = i % 7, x[2 * i + 1] = 0))
    FILL(n / 4, (turn[2 * i] = cos(6.283185307179586 * 2 * i / n), turn[2 * i + 1] = sin(6.283185307179586 * 2 * i / n)))
    nearfar_begin();
    long half = n / 2;
    for (long r = 0; r < reps; r++, half = half > 1 ? half / 2 : n / 2) {
#pragma omp parallel for schedule(static)
        for (long k = 0; k < n / 2; k++) {
            long in = k % half, i = 2 * (2 * (k / half) * half + in), j = i + 2 * half, t = 2 * (in * (n / 4) / half);
            double re = x[j] * turn[t] - x[j + 1] * turn[t + 1], im = x[j] * turn[t + 1] + x[j + 1] * turn[t];
            x[j] = 0.5 * (x[i] - re), x[j + 1] = 0.5 * (x[i + 1] - im);
            x[i] = 0.5 * (x[i] + re), x[i + 1] = 0.5 * (x[i + 1] + im);
        }
    }
    nearfar_end();
    return x[6];
}

static double lu(long kib, long reps) {
    enum { M = 64 };
    long n = kib * 1024 / (M * M * 8);
    if (n < 1) n = 1;
    double *a = memory(n * M * M * 8);
    FILL(n, for (long k = 0; k < M * M; k++) a[i * M * M + k] = k % (M + 1) ? 0.01 * (k % 17) : 8)
    nearfar_begin();
    for (long r = 0; r < reps; r++) {
#pragma omp parallel for schedule(static)
        for (long q = 0; q < n; q++) {
            double *m = a + q * M * M;
            for (int k = 0; k < M; k++)
                for (int i = k + 1; i < M; i++) {
                    double f = m[i * M + k] /= m[k * M + k];
                    for (int j = k + 1; j < M; j++) m[i * M + j] -= f * m[k * M + j];
                }
            for (int k = 0; k < M; k++) m[k * M + k] = 8;
        }
    }
    nearfar_end();
    return a[M + 3];
}

static double trisolve(long kib, long reps) {
    enum { ROW = 8, LEVELS = 16 };
    long n = kib * 1024 / (ROW * 12 + 16), level = n / LEVELS;
    double *value = memory(n * ROW * 8), *x = memory(n * 8), *b = memory(n * 8);
    int32_t *column = memory(n * ROW * 4);
    FILL(n, (x[i] = 0, b[i] = 1); for (long k = 0; k < ROW; k++) {
        long before = i / level * level;
        value[i * ROW + k] = before ? 0.1 : 0;
        column[i * ROW + k] = before ? (int32_t)(mixed(i * ROW + k) % before) : 0;
    })
    nearfar_begin();
    for (long r = 0; r < reps; r++)
        for (long l = 0; l < LEVELS; l++) {
#pragma omp parallel for schedule(static)
            for (long i = l * level; i < (l + 1) * level; i++) {
                double s = b[i];
                for (long k = 0; k < ROW; k++) s -= value[i * ROW + k] * x[column[i * ROW + k]];
                x[i] = s;
            }
        }
    nearfar_end();
    return x[level * LEVELS - 1];
}

static double sort(long kib, long reps) {
    long n = 1, run = 1;
    while (n * 2 * 16 <= kib * 1024) n *= 2;
    uint64_t *from = memory(n * 8), *to = memory(n * 8);
    FILL(n, (from[i] = mixed(i), to[i] = 0))
    nearfar_begin();
    for (long r = 0; r < reps; r++, run = 2 * run < n / 8 ? 2 * run : 1) {
#pragma omp parallel for schedule(static)
        for (long p = 0; p < n / (2 * run); p++) {
            uint64_t *a = from + 2 * run * p, *a_end = a + run, *b = a_end, *b_end = b + run, *t = to + 2 * run * p;
            while (a < a_end && b < b_end) *t++ = *a <= *b ? *a++ : *b++;
            while (a < a_end) *t++ = *a++;
            while (b < b_end) *t++ = *b++;
        }
        uint64_t *swap = from;
        from = to, to = swap;
    }
    nearfar_end();
    return (double)from[n / 2];
}

static double nbody(long kib, long reps) {
    enum { AT = 16 };
    long n = kib * 1024 / 32;
    struct body {
        double x, y, z, mass;
    } *body = memory(n * sizeof *body);
    FILL(n, (body[i].x = i % 101, body[i].y = i % 103, body[i].z = i % 107, body[i].mass = 1))
    nearfar_begin();
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (long q = 0; q < reps * AT; q++) {
        struct body at = body[mixed(q) % n];
        for (long i = 0; i < n; i++) {
            double x = body[i].x - at.x, y = body[i].y - at.y, z = body[i].z - at.z, d = x * x + y * y + z * z + 0.01;
            sum += body[i].mass * x / (d * sqrt(d));
        }
    }
    return sum;
}

int main(int count, char **word) {
    static const struct {
        const char *name;
        double (*run)(long, long);
    } kernels[] = {{"ep", ep}, {"triad", triad}, {"jacobi", jacobi}, {"aos", aos}, {"spmv", spmv}, {"is", is},
                   {"bfs", bfs}, {"join", join}, {"shared", shared}, {"private", private}, {"table", table}, {"rows", rows},
                   {"histogram", histogram}, {"transpose", transpose}, {"fft", fft}, {"lu", lu}, {"trisolve", trisolve},
                   {"sort", sort}, {"nbody", nbody}};
    if (count == 5)
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            if (!strcmp(word[1], kernels[i].name)) {
                long kib = atol(word[3]), reps = atol(word[4]);
                parallel = !strcmp(word[2], "parallel");
                if (kib < 1 || reps < 1 || (!parallel && strcmp(word[2], "serial"))) break;
                printf("%.10g\n", kernels[i].run(kib, reps));
                return 0;
            }
    fprintf(stderr, "usage: kernels NAME serial|parallel KIB REPETITIONS\n");
    nearfar_end();
    return 2;
}
