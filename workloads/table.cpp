// SPDX-License-Identifier: MIT OR Apache-2.0
//
// table: all threads look up random entries of one hot table on one node.
//
// No first touch repairs that: every page is used by every node. Of the
// traffic (N-1)/N is remote on N nodes, and one memory controller serves all.
// What is right depends on whether the table is written (flag --kind):
//  read-only   Replicate. --repaired makes a copy on each node, written by one
//              thread that runs there; nothing is remote any more.
//  read-write  Each look-up also counts in its entry, so there can be only one
//              table. Interleave. --repaired lets thread p mod T touch page p
//              first: still (N-1)/N remote, but all controllers share the work.
//
// The result is exact though the order is not: sums of keys and counts modulo
// 2^64 do not depend on it.

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "../include/nearfar.h"
#include "common.hpp"

// No line holds part of an entry, so a look-up moves one line.
struct alignas(16) Entry {
    std::uint64_t key;
    std::atomic<std::uint64_t> count;
};
constexpr std::size_t PER_PAGE = workload::PAGE / sizeof(Entry);

static std::uint64_t key_of(std::size_t i) { return 0x9e3779b97f4a7c15u * (i + 1); }

// The k-th look-up of a thread: the high half of a product, which costs no division.
static std::size_t place_of(std::uint64_t stream, std::size_t k, std::size_t entries)
{
    return static_cast<std::size_t>((static_cast<unsigned __int128>(workload::scramble(stream + k)) * entries) >> 64);
}
static std::uint64_t stream_of(std::uint64_t seed, int thread)
{
    return workload::scramble(seed) + (static_cast<std::uint64_t>(thread) << 40);
}

static void write_range(Entry *table, std::size_t begin, std::size_t end)
{
    for (std::size_t i = begin; i < end; ++i) {
        Entry *const entry = new (table + i) Entry;
        entry->key = key_of(i);
        entry->count.store(0, std::memory_order_relaxed);
    }
}

[[gnu::noinline]] static void initialize_serial(Entry *table, std::size_t entries) { write_range(table, 0, entries); }

[[gnu::noinline]] static void initialize_page_by_page(Entry *table, std::size_t entries)
{
    // Chunks of one page, dealt in turn.
#pragma omp parallel for schedule(static, 1)
    for (std::size_t page = 0; page < (entries + PER_PAGE - 1) / PER_PAGE; ++page)
        write_range(table, page * PER_PAGE, std::min((page + 1) * PER_PAGE, entries));
}

// One copy per node, made by its first thread t as `copies[t]`. `tables[t]` is what thread t shall use.
[[gnu::noinline]] static void replicate_per_node(const Entry *table, std::size_t entries, std::vector<Entry *> &copies,
                                                  std::vector<Entry *> &tables)
{
    std::vector<unsigned> node(tables.size(), 0);
#pragma omp parallel
    {
        const std::size_t t = static_cast<std::size_t>(omp_get_thread_num());
        unsigned cpu = 0;
        if (getcpu(&cpu, &node[t]) != 0)
            node[t] = 0; // a far copy, but a right result
#pragma omp barrier
        std::size_t first = 0;
        while (node[first] != node[t])
            ++first;
        if (first == t) {
            const std::size_t bytes = workload::whole_pages(entries * sizeof(Entry));
            Entry *const copy = static_cast<Entry *>(std::aligned_alloc(workload::PAGE, bytes));
            workload::need_memory(copy, bytes);
            for (std::size_t i = 0; i < entries; ++i) {
                Entry *const entry = new (copy + i) Entry;
                entry->key = table[i].key;
                entry->count.store(0, std::memory_order_relaxed);
            }
            copies[t] = copy;
        }
#pragma omp barrier
        tables[t] = copies[first];
    }
}

[[gnu::noinline]] static std::uint64_t look_up(Entry *const *tables, std::size_t entries, std::size_t lookups,
                                               std::uint64_t seed)
{
    std::uint64_t sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        const Entry *const table = tables[omp_get_thread_num()];
        const std::uint64_t stream = stream_of(seed, omp_get_thread_num());
        for (std::size_t k = 0; k < lookups; ++k)
            sum += table[place_of(stream, k, entries)].key;
    }
    return sum;
}

[[gnu::noinline]] static std::uint64_t look_up_and_count(Entry *const *tables, std::size_t entries,
                                                         std::size_t lookups, std::uint64_t seed)
{
    std::uint64_t sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        Entry *const table = tables[omp_get_thread_num()];
        const std::uint64_t stream = stream_of(seed, omp_get_thread_num());
        for (std::size_t k = 0; k < lookups; ++k) {
            Entry &entry = table[place_of(stream, k, entries)];
            sum += entry.key;
            entry.count.fetch_add(k, std::memory_order_relaxed);
        }
    }
    return sum;
}

int main(int argc, char **argv)
{
    workload::Arguments arguments(argc, argv, "table",
                                  "[--kind read-only|read-write] [--repaired] [--entries N] [--lookups K] [--seed S]\n"
                                  "       [--threads T]\n"
                                  "N entries of 16 bytes; K look-ups of each thread.");
    const bool writes = arguments.choice("--kind", {"read-only", "read-write"}) == "read-write";
    const bool repaired = arguments.given("--repaired");
    const std::size_t entries = arguments.count("--entries", std::size_t(1) << 21);
    const std::size_t lookups = arguments.count("--lookups", 400000);
    const std::size_t seed = arguments.count("--seed", 1, 0);
    const int threads = arguments.threads();
    arguments.finish();
    const std::size_t bytes = workload::whole_pages(workload::product(arguments, {sizeof(Entry), entries}));

    Entry *table = static_cast<Entry *>(std::aligned_alloc(workload::PAGE, bytes));
    workload::need_memory(table, bytes);
    std::printf("kind=%s repaired=%s entries=%zu lookups=%zu seed=%zu threads=%d allocated=%.1f MB\n",
                writes ? "read-write" : "read-only", repaired ? "yes" : "no", entries, lookups, seed, threads,
                1e-6 * static_cast<double>(bytes));
    std::vector<Entry *> tables(static_cast<std::size_t>(threads), table), copies(tables.size(), nullptr);
    if (writes && repaired)
        initialize_page_by_page(table, entries);
    else
        initialize_serial(table, entries);
    if (!writes && repaired)
        replicate_per_node(table, entries, copies, tables);

    const double start = workload::wall_seconds();
    nearfar_begin();
    const std::uint64_t sum = writes ? look_up_and_count(tables.data(), entries, lookups, seed)
                                     : look_up(tables.data(), entries, lookups, seed);
    nearfar_end();
    std::printf("time: %.4f s\n", workload::wall_seconds() - start);

    // What was found, and for each count how much of it and in which entry:
    // a count in the wrong place changes the second sum.
    std::uint64_t keys = 0, wanted = 0, counted = 0;
    for (int t = 0; t < threads; ++t)
        for (std::size_t k = 0; k < lookups; ++k) {
            const std::size_t i = place_of(stream_of(seed, t), k, entries);
            keys += key_of(i);
            wanted += writes ? k * key_of(i) : 0;
        }
    for (std::size_t i = 0; i < entries; ++i)
        counted += table[i].count.load(std::memory_order_relaxed) * key_of(i);
    const std::size_t wrong = std::size_t(sum != keys) + std::size_t(counted != wanted);
    for (Entry *copy : copies)
        std::free(copy);
    std::free(table);
    return workload::verdict(wrong, 2, "sums");
}
