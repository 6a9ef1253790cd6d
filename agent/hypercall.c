/* Inside nearfar's virtual machine: tells the emulator's plugin which threads are the
 * program's, what time it is, and where the region of interest begins and ends.
 *
 * The plugin sees addresses of memory accesses, but neither registers nor contents. So a
 * message is a sequence of loads from one page, each behind a no-op that marks it, and the
 * offset in the page is the datum: NF_HYPERCALL_BEGIN, the value's eight bytes from the lowest
 * up, and NF_HYPERCALL_COMMIT plus the operation. On a real machine this would be loads without
 * an effect; it is only done where the recorder asks for it. */
#include "agent.h"

#if defined(__x86_64__)
/* Read only, so that all of it is the kernel's zero page or the file's. */
static char page[4096] __attribute__((aligned(4096)));

/* nopl 0x4e464442(%rax); movb (%rdi), %al: crates/qemu-plugin looks for these bytes. */
static void touch(size_t offset) {
    __asm__ volatile(".byte 0x0f, 0x1f, 0x80, 0x42, 0x44, 0x46, 0x4e, 0x8a, 0x07" : : "D"(page + offset) : "rax", "memory");
}
#else
/* The virtual machine is an x86-64: no other agent is ever inside. */
static void touch(size_t offset) {
    (void)offset;
}
#endif

void nf_hypercall(enum nf_hypercall operation, uint64_t value) {
    if (LIKELY(!(nf_process.flags & NF_SET_HYPERCALL))) return;
    touch(NF_HYPERCALL_BEGIN);
    for (int i = 0; i < 8; i++) touch((value >> (8 * i)) & 0xff);
    touch(NF_HYPERCALL_COMMIT + (size_t)operation);
}

/* The recorder's own child continues on the first of its cpus, whichever the kernel gave it while it was loaded: it waits for files then, and is
 * woken elsewhere if the kernel itself has work on that cpu. */
static void go_to_first_cpu(void) {
    enum { WORDS = 1024 / 64 };
    uint64_t all[WORDS] = {0}, first[WORDS] = {0};
    if (nf_sys(SYS_getppid) != nf_process.header->recorder_pid) return;
    if (nf_sys(SYS_sched_getaffinity, 0, sizeof all, all) <= 0) return;
    size_t word = 0;
    while (word < WORDS - 1 && !all[word]) word++;
    first[word] = all[word] & -all[word];
    if (nf_sys(SYS_sched_setaffinity, 0, sizeof first, first) == 0) nf_sys(SYS_sched_setaffinity, 0, sizeof all, all);
}

void nf_program_begins(void) {
    if (LIKELY(!(nf_process.flags & NF_SET_HYPERCALL))) return;
    go_to_first_cpu();
    nf_hypercall(NF_HYPERCALL_MAIN, 0);
}

/* Records of some kinds say something that the plugin has to know at once; with every
 * other the clock is enough, which puts its samples in order with our records. */
void nf_hypercall_record(uint16_t kind) {
    switch (kind) {
    case NF_THREAD_START:
    case NF_FORK: nf_hypercall(NF_HYPERCALL_THREAD, (uint64_t)nf_process.told_pid << 32 | nf_told_tid()); break;
    case NF_THREAD_END: nf_hypercall(NF_HYPERCALL_THREAD_END, 0); break;
    case NF_ROI_BEGIN: nf_hypercall(NF_HYPERCALL_REGION_BEGIN, 0); break;
    case NF_ROI_END: nf_hypercall(NF_HYPERCALL_REGION_END, 0); break;
    case NF_EXIT: nf_hypercall(NF_HYPERCALL_PROCESS_END, nf_process.told_pid); break;
    case NF_SAMPLE: return; /* from a signal handler, which may be in the middle of a message */
    default: break;
    }
    nf_hypercall(NF_HYPERCALL_TIME, nf_now(CLOCK_MONOTONIC));
}
