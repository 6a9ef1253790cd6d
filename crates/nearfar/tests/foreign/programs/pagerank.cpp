// PageRank of a random graph: ranks are gathered from anywhere, edges are read in order.
// pagerank VERTICES ITERATIONS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char **words) {
    long n = std::atol(count > 1 ? words[1] : "20000");
    int iterations = std::atoi(count > 2 ? words[2] : "2");
    const long degree = 16;
    std::vector<std::uint32_t> edges;
    edges.reserve(n * degree);
    std::uint64_t seed = 1;
    for (long e = 0; e < n * degree; e++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        edges.push_back(std::uint32_t((seed >> 33) % n)); /* placed */
    }
    std::vector<double> rank(n, 1.0 / double(n)), next(n); /* placed */
    for (int k = 0; k < iterations; k++) {
#pragma omp parallel for schedule(static)
        for (long v = 0; v < n; v++) {
            double sum = 0;
            for (long e = v * degree; e < (v + 1) * degree; e++)
                sum += rank[edges[e]]; /* used */
            next[v] = 0.15 / double(n) + 0.85 * sum / double(degree);
        }
        rank.swap(next);
    }
    return std::printf("%g\n", rank[0]) < 0;
}
