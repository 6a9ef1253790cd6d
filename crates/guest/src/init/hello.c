/* What the guest says of itself before the snapshot. */
#include "init.h"

#include <stdarg.h>
#include <stdbool.h>
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

/* Functions of the kernel: the plugin knows tasks by the switch of stacks, when they were woken by the next two; in the
 * fourth the kernel waits for an answer of all cpus, and in the last it clears a huge page. */
static const char *const FUNCTIONS[] = {"__switch_to_asm", "try_to_wake_up", "wake_up_new_task", "smp_call_function_many_cond", "clear_huge_page"};
enum { FUNCTION_COUNT = sizeof FUNCTIONS / sizeof FUNCTIONS[0] };

/* Where they are, and where the next one begins. The kernel makes each line when it is read: they are read once, up to the
 * last that is wanted. */
static void say_symbols(void) {
    FILE *symbols = fopen("/proc/kallsyms", "re");
    if (!symbols) return;
    char line[512];
    unsigned long long found[FUNCTION_COUNT] = {0};
    bool ended[FUNCTION_COUNT] = {false};
    unsigned left = FUNCTION_COUNT;
    while (left && fgets(line, sizeof line, symbols)) {
        /* "ffffffff81003270 T name", and the module's name behind a tab. */
        char *name;
        unsigned long long address = strtoull(line, &name, 16);
        if (strnlen(name, 3) < 3) continue;
        name += 3;
        name[strcspn(name, "\t\n")] = 0;
        for (unsigned i = 0; i < FUNCTION_COUNT; i++) {
            if (!found[i]) {
                if (strcmp(name, FUNCTIONS[i]) != 0) continue;
                say("symbol.%s=%llx\n", name, address);
                found[i] = address;
            } else if (!ended[i] && address > found[i]) {
                /* They are sorted; some addresses have several names. */
                say("symbol.%s.end=%llx\n", FUNCTIONS[i], address);
                ended[i] = true;
                left--;
            }
        }
    }
    fclose(symbols);
}

/* The number of the last node; they are a list as "0-1,3". */
static unsigned last_node(void) {
    char *online = read_file("/sys/devices/system/node/online", NULL);
    if (!online) return 0;
    const char *last = online;
    for (const char *c = online; *c; c++)
        if (*c == '-' || *c == ',') last = c + 1;
    unsigned node = (unsigned)strtoul(last, NULL, 10);
    free(online);
    return node;
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
    say_symbols();
    say_file("clocksource", CLOCK);
    say_file("nodes", "/sys/devices/system/node/online");
    say_file("cpus", "/sys/devices/system/cpu/online");
    for (unsigned node = 0, last = last_node(); node <= last; node++) {
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
