// Thirty fields of one class, which its constructor fills and a loop over parts of it uses.
// fields ELEMENTS STEPS
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Domain {
    static constexpr int FIELDS = 30;
    std::vector<double> field[FIELDS];

    explicit Domain(std::size_t n) {
        for (auto &one : field)
            fill(one, n);
    }
    static void fill(std::vector<double> &one, std::size_t n) {
        one.reserve(n);
        for (std::size_t i = 0; i < n; i++)
            one.push_back(double(i)); /* placed */
    }
    void step() {
        long n = long(field[0].size());
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            for (int f = 0; f + 1 < FIELDS; f += 2)
                field[f][i] += 0.5 * field[f + 1][i]; /* used */
    }
};

int main(int count, char **words) {
    Domain domain(std::strtoul(count > 1 ? words[1] : "20000", nullptr, 10));
    int steps = std::atoi(count > 2 ? words[2] : "2");
    for (int i = 0; i < steps; i++)
        domain.step();
    return std::printf("%f\n", domain.field[0][7]) < 0;
}
