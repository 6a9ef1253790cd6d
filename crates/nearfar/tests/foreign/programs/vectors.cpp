// A vector for each thread: main resizes all of them at one line, and each thread uses its own.
// vectors ELEMENTS ITERATIONS
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int count, char **words) {
    std::size_t n = std::strtoul(count > 1 ? words[1] : "100000", nullptr, 10);
    int iterations = std::atoi(count > 2 ? words[2] : "4");
    std::vector<std::vector<double>> parts(2);
    for (auto &part : parts)
        part.resize(n); /* placed */
    std::vector<std::thread> threads;
    for (auto &part : parts)
        threads.emplace_back([&part, iterations] {
            for (int turn = 0; turn < iterations; turn++)
                for (auto &x : part)
                    x = x * 0.5 + turn; /* used */
        });
    for (auto &thread : threads)
        thread.join();
    return std::printf("%f\n", parts[0][7]) < 0;
}
