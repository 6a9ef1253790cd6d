/* A QEMU plugin that writes down the memory address behind every access to the pages of
 * touch.c: one line `VIRTUAL PHYSICAL` each. Its argument is out=FILE.
 * The declarations are those of QEMU's plugin interface, version 1. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t plugin_id;
struct block;
struct instruction;
struct hardware_address;

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct block *);
extern struct instruction *qemu_plugin_tb_get_insn(const struct block *, size_t);
extern void qemu_plugin_register_vcpu_mem_cb(struct instruction *,
                                             void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
extern struct hardware_address *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
extern bool qemu_plugin_hwaddr_is_io(const struct hardware_address *);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct hardware_address *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static FILE *out;

static void access_seen(unsigned cpu, uint32_t about, uint64_t address, void *unused) {
    (void)cpu, (void)unused;
    if (address >> 32 != 0x7000) return;
    struct hardware_address *found = qemu_plugin_get_hwaddr(about, address);
    if (found && !qemu_plugin_hwaddr_is_io(found))
        fprintf(out, "%llx %llx\n", (unsigned long long)address,
                (unsigned long long)qemu_plugin_hwaddr_phys_addr(found));
}

static void block_translated(plugin_id id, struct block *block) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), access_seen, 0, 3, NULL);
}

static void finished(plugin_id id, void *unused) {
    (void)id, (void)unused;
    fputs("finished\n", out);
    fclose(out);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info, int count,
                                                               char **arguments) {
    (void)info;
    if (count < 1 || strncmp(arguments[0], "out=", 4) != 0) return -1;
    out = fopen(arguments[0] + 4, "w");
    if (!out) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
