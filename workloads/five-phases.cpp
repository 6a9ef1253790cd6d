// SPDX-License-Identifier: MIT OR Apache-2.0
//
// five-phases: a program that knows where its time went.
//
// One thread, five arrays of equal size, each worked on in a phase and a
// function of its own, each by another kind of access:
//   alpha    streaming read (a sum)        read_alpha
//   beta     streaming write               write_beta
//   gamma    pointer chase, random order   chase_gamma
//   delta    column walk, one per page     walk_delta
//   epsilon  read-modify-write in order    update_epsilon
// A phase repeats until it has spent its share of the CPU time and prints what
// it really spent. These lines are the truth for a profiler that attributes
// samples to arrays: its shares must agree with the shares of cpu_ns.
//
// Where is the NUMA defect? There is none: a single thread touches its own
// memory. Allocation and initialisation lie before the region of interest and
// are printed as a line of their own.

#include "../include/nearfar.h"
#include "common.hpp"

using workload::Link;

// Work between two looks at the clock: about 2 MiB of streaming or 32768
// dependent steps, 0.2 to 5 ms on hardware. A look costs under a microsecond.
constexpr std::size_t SLICE = std::size_t(1) << 18; // 8-byte elements
constexpr std::uint64_t STEPS = 32768;
// A row of delta is one page, so a step down a column is a step to another page.
constexpr std::size_t ROW = workload::PAGE / sizeof(std::uint64_t);

static std::uint64_t cpu_ns()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// What a phase did: for the report (slices) and for the check (sum, where).
struct Work {
    std::uint64_t slices = 0, sum = 0;
    const Link *where = nullptr;
};

[[gnu::noinline]] static Work read_alpha(const std::uint64_t *alpha, std::size_t elements, std::uint64_t until)
{
    Work work;
    std::size_t at = 0;
    do {
        std::uint64_t sum = 0;
        for (std::size_t i = at; i < at + SLICE; ++i)
            sum += alpha[i];
        work.sum += sum;
        at = at + SLICE == elements ? 0 : at + SLICE;
        ++work.slices;
    } while (cpu_ns() < until);
    return work;
}

[[gnu::noinline]] static Work write_beta(std::uint64_t *beta, std::size_t elements, std::uint64_t until)
{
    Work work;
    std::size_t at = 0;
    do {
        ++work.slices;
        for (std::size_t i = at; i < at + SLICE; ++i)
            beta[i] = work.slices;
        workload::memory_is_observed();
        at = at + SLICE == elements ? 0 : at + SLICE;
    } while (cpu_ns() < until);
    return work;
}

[[gnu::noinline]] static Work chase_gamma(const Link *gamma, std::uint64_t until)
{
    Work work;
    const Link *at = gamma;
    do {
        for (std::uint64_t step = 0; step < STEPS; step += 8)
            at = at->next->next->next->next->next->next->next->next;
        ++work.slices;
    } while (cpu_ns() < until);
    work.where = at;
    return work;
}

// One slice is one column: a read in each row, that is in each page.
[[gnu::noinline]] static Work walk_delta(const std::uint64_t *delta, std::size_t elements, std::uint64_t until)
{
    Work work;
    std::size_t column = 0;
    do {
        std::uint64_t sum = 0;
        for (std::size_t i = column; i < elements; i += ROW)
            sum += delta[i];
        work.sum += sum;
        // 9 lines and one element further: the next column shares no line with
        // this one, and as 73 is odd all columns get their turn.
        column = (column + 73) % ROW;
        ++work.slices;
    } while (cpu_ns() < until);
    return work;
}

[[gnu::noinline]] static Work update_epsilon(std::uint64_t *epsilon, std::size_t elements, std::uint64_t until)
{
    Work work;
    std::size_t at = 0;
    do {
        for (std::size_t i = at; i < at + SLICE; ++i)
            epsilon[i] += 1;
        workload::memory_is_observed();
        at = at + SLICE == elements ? 0 : at + SLICE;
        ++work.slices;
    } while (cpu_ns() < until);
    return work;
}

[[gnu::noinline]] static void initialize(std::uint64_t *alpha, std::uint64_t *beta, Link *gamma,
                                         std::uint64_t *delta, std::uint64_t *epsilon, std::size_t elements)
{
    for (std::size_t i = 0; i < elements; ++i) {
        alpha[i] = i % 256; // sums to SLICE / 256 * 32640 in each slice
        beta[i] = 0;
        delta[i] = i % ROW; // the number of the column
        epsilon[i] = 0;
    }
    workload::make_cycle(gamma, elements * sizeof(std::uint64_t) / sizeof(Link));
}

// Slice numbers go round the array: the one that last covered slice `s` of
// `around`, out of `done`; and how many did.
static std::uint64_t last_on(std::uint64_t s, std::uint64_t around, std::uint64_t done)
{
    return s < done ? (done - 1 - s) / around * around + s + 1 : 0;
}
static std::uint64_t times_on(std::uint64_t s, std::uint64_t around, std::uint64_t done)
{
    return s < done ? (done - 1 - s) / around + 1 : 0;
}

static std::vector<double> parse_shares(const workload::Arguments &arguments, const std::string &text)
{
    std::vector<double> shares;
    double sum = 0;
    const char *at = text.c_str();
    for (;;) {
        char *end = nullptr;
        const double share = std::strtod(at, &end);
        if (end == at || !std::isfinite(share) || share <= 0 || (*end != '/' && *end != '\0'))
            arguments.fail("--shares wants five numbers above 0 like 10/15/20/25/30, not '" + text + "'");
        shares.push_back(share);
        sum += share;
        if (*end == '\0')
            break;
        at = end + 1;
    }
    if (shares.size() != 5)
        arguments.fail("--shares wants five numbers, one per array, not " + std::to_string(shares.size()));
    for (double &share : shares)
        share /= sum;
    return shares;
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "five-phases",
                                  "[--seconds S] [--shares A/B/C/D/E] [--mb M]\n"
                                  "S seconds of CPU time in all (default 5), split as the shares say\n"
                                  "(default 10/15/20/25/30); M MiB per array (default 64, an even number).");
    const double seconds = arguments.real("--seconds", 5);
    const std::vector<double> shares = parse_shares(arguments, arguments.text("--shares", "10/15/20/25/30"));
    const std::size_t megabytes = arguments.count("--mb", 64, 2);
    arguments.finish();
    if (megabytes % 2 != 0)
        arguments.fail("--mb wants an even number, not " + std::to_string(megabytes));
    const std::size_t bytes = workload::product(arguments, {megabytes, std::size_t(1) << 20});
    const std::size_t elements = bytes / sizeof(std::uint64_t), links = bytes / sizeof(Link);

    const std::uint64_t before = cpu_ns();
    std::uint64_t *alpha = static_cast<std::uint64_t *>(std::aligned_alloc(workload::PAGE, bytes));
    std::uint64_t *beta = static_cast<std::uint64_t *>(std::aligned_alloc(workload::PAGE, bytes));
    Link *gamma = static_cast<Link *>(std::aligned_alloc(workload::PAGE, bytes));
    std::uint64_t *delta = static_cast<std::uint64_t *>(std::aligned_alloc(workload::PAGE, bytes));
    std::uint64_t *epsilon = static_cast<std::uint64_t *>(std::aligned_alloc(workload::PAGE, bytes));
    for (const void *array : {static_cast<void *>(alpha), static_cast<void *>(beta), static_cast<void *>(gamma),
                              static_cast<void *>(delta), static_cast<void *>(epsilon)})
        workload::need_memory(array, bytes);
    initialize(alpha, beta, gamma, delta, epsilon, elements);
    const std::uint64_t init_ns = cpu_ns() - before;

    const char *const names[5] = {"alpha", "beta", "gamma", "delta", "epsilon"};
    const char *const kinds[5] = {"streaming read", "streaming write", "pointer chase", "column walk",
                                  "read-modify-write"};
    Work done[5];
    std::uint64_t spent[5], budgets[5];
    for (std::size_t phase = 0; phase < 5; ++phase)
        budgets[phase] = static_cast<std::uint64_t>(1e9 * seconds * shares[phase]);
    nearfar_begin();
    for (int phase = 0; phase < 5; ++phase) {
        nearfar_phase_begin(names[phase]);
        const std::uint64_t start = cpu_ns();
        const std::uint64_t until = start + budgets[phase];
        switch (phase) {
        case 0: done[0] = read_alpha(alpha, elements, until); break;
        case 1: done[1] = write_beta(beta, elements, until); break;
        case 2: done[2] = chase_gamma(gamma, until); break;
        case 3: done[3] = walk_delta(delta, elements, until); break;
        case 4: done[4] = update_epsilon(epsilon, elements, until); break;
        }
        spent[phase] = cpu_ns() - start;
        nearfar_phase_end(names[phase]);
    }
    nearfar_end();

    std::printf("{\"phase\":\"init\",\"cpu_ns\":%llu}\n", static_cast<unsigned long long>(init_ns));
    for (int phase = 0; phase < 5; ++phase)
        std::printf("{\"phase\":\"%s\",\"cpu_ns\":%llu,\"kind\":\"%s\",\"bytes\":%zu,\"slices\":%llu}\n", names[phase],
                    static_cast<unsigned long long>(spent[phase]), kinds[phase], bytes,
                    static_cast<unsigned long long>(done[phase].slices));

    const std::uint64_t around = elements / SLICE;
    bool right[5] = {done[0].sum == done[0].slices * (SLICE / 256 * 32640), true,
                     workload::cycle_leads_to(gamma, links, done[2].slices * STEPS, done[2].where), false, true};
    for (std::size_t i = 0; i < elements; ++i) {
        right[1] &= beta[i] == last_on(i / SLICE, around, done[1].slices);
        right[4] &= epsilon[i] == times_on(i / SLICE, around, done[4].slices);
    }
    std::uint64_t expected = 0;
    for (std::uint64_t k = 0; k < done[3].slices; ++k)
        expected += k * 73 % ROW * (elements / ROW);
    right[3] = done[3].sum == expected;
    int status = 0;
    for (int phase = 0; phase < 5; ++phase)
        if (!right[phase]) {
            std::fprintf(stderr, "verify: %s is WRONG\n", names[phase]);
            status = workload::RESULT_WRONG;
        }
    std::free(alpha);
    std::free(beta);
    std::free(gamma);
    std::free(delta);
    std::free(epsilon);
    return status;
}
