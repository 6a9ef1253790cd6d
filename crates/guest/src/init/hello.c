/* What the guest says of itself before the snapshot. */
#include "init.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static char text[65536];
static size_t used;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof text - used) fail("too much to say", format);
    used += (size_t)size;
}

/* The first line of a file under `name`; nothing if no such file exists. */
static void say_file(const char *name, const char *path) {
    char *content = read_file(path, NULL);
    if (!content) return;
    content[strcspn(content, "\n")] = 0;
    say("%s=%s\n", name, content);
    free(content);
}

/* Where a function of the kernel is, and where the next one begins. */
static void say_symbol(const char *name) {
    FILE *symbols = fopen("/proc/kallsyms", "re");
    if (!symbols) return;
    char line[512], symbol[256];
    unsigned long long address, found = 0;
    char type;
    while (fgets(line, sizeof line, symbols)) {
        if (sscanf(line, "%llx %c %255s", &address, &type, symbol) != 3) continue;
        /* They are sorted; some addresses have several names. */
        if (found && address > found) {
            say("symbol.%s.end=%llx\n", name, address);
            break;
        }
        if (!found && strcmp(symbol, name) == 0) {
            say("symbol.%s=%llx\n", name, address);
            found = address;
        }
    }
    fclose(symbols);
}

/* The highest guest-physical page of each node, from the zones. */
static void say_ends(void) {
    FILE *zones = fopen("/proc/zoneinfo", "re");
    if (!zones) return;
    static unsigned long long ends[1024];
    unsigned node = 0, nodes = 0;
    unsigned long long spanned = 0, start;
    char line[256];
    while (fgets(line, sizeof line, zones)) {
        if (sscanf(line, "Node %u, zone", &node) == 1) {
            if (node >= 1024) break;
            if (node + 1 > nodes) nodes = node + 1;
        } else if (sscanf(line, " spanned %llu", &spanned) == 1) {
        } else if (sscanf(line, " start_pfn: %llu", &start) == 1) {
            /* An empty zone has a start, too. */
            if (spanned > 0 && start + spanned > ends[node]) ends[node] = start + spanned;
        }
    }
    fclose(zones);
    for (unsigned n = 0; n < nodes; n++) say("node%u.end_pfn=%llu\n", n, ends[n]);
}

char *hello_text(void) {
    struct utsname name;
    if (uname(&name) != 0) fail("cannot ask for", "the kernel's name");
    say("version=%d\nrelease=%s\n", NF_GUEST_VERSION, name.release);
    /* The plugin knows tasks by the switch of stacks, and when they were woken by these two. */
    say_symbol("__switch_to_asm");
    say_symbol("try_to_wake_up");
    say_symbol("wake_up_new_task");
    /* In this one the kernel waits for an answer of all cpus. */
    say_symbol("smp_call_function_many_cond");
    say_file("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    say_file("nodes", "/sys/devices/system/node/online");
    say_file("cpus", "/sys/devices/system/cpu/online");
    for (unsigned node = 0; node < 1024; node++) {
        char name[64], path[128];
        snprintf(name, sizeof name, "node%u.cpus", node);
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", node);
        say_file(name, path);
        snprintf(name, sizeof name, "node%u.distances", node);
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u/distance", node);
        say_file(name, path);
    }
    say_ends();
    return text;
}
