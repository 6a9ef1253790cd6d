/* Binds 64 pages to each of the nodes, touches them, and asks the kernel where they are.
 * Node n's pages are at 0x700000000000 + n * 64 MiB, where nothing else is. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 64, PAGE = 4096, BIND = 2 };

int main(int count, char **arguments) {
    int nodes = count > 1 ? atoi(arguments[1]) : 1;
    for (int node = 0; node < nodes; node++) {
        char *memory = mmap((void *)(0x700000000000ul + (unsigned long)node * 0x4000000ul), PAGES * PAGE,
                            PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (memory == MAP_FAILED) return perror("mmap"), 1;
        unsigned long mask = 1ul << node;
        if (syscall(SYS_mbind, memory, (unsigned long)PAGES * PAGE, BIND, &mask, 64ul, 0) != 0)
            return perror("mbind"), 1;
        void *pages[PAGES];
        int page_nodes[PAGES], right = 0;
        for (int i = 0; i < PAGES; i++) {
            memory[i * PAGE] = 1;
            pages[i] = memory + i * PAGE;
            page_nodes[i] = -1;
        }
        if (syscall(SYS_move_pages, 0, (unsigned long)PAGES, pages, NULL, page_nodes, 0) != 0)
            return perror("move_pages"), 1;
        for (int i = 0; i < PAGES; i++) right += page_nodes[i] == node;
        printf("node %d: %d of %d\n", node, right, PAGES);
    }
    return 0;
}
