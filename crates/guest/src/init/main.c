/* The first process of the virtual machine.
 *
 * It loads the modules that it needs to be heard, says what the guest looks like and waits.
 * Here the host takes the snapshot. Whatever follows happens after a resume: the host's
 * message says which program to run; its files come from the host by 9p; its streams go
 * through the same port as the message.
 *
 * It is linked statically and is, with the modules, all that the initramfs has: no shell,
 * no tools of any distribution.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn void fail(const char *what, const char *which) {
    fprintf(stderr, "nearfar-init: %s %s: %s\n", what, which, strerror(errno));
    fflush(stderr);
    sync();
    reboot(RB_POWER_OFF);
    /* Without a way to switch off: the end of process 1 is a panic, which the host sees. */
    _exit(1);
}

static void mount_or_fail(const char *type, const char *where) {
    make_directory(where);
    if (mount(type, where, type, 0, NULL) != 0 && errno != EBUSY) fail("cannot mount", where);
}

static void load_modules(void) {
    char *list = read_file("/modules.list", NULL);
    if (!list) fail("cannot read", "/modules.list");
    for (char *name = strtok(list, "\n"); name; name = strtok(NULL, "\n")) {
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0) fail("cannot open the module", name);
        if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST)
            fail("cannot load the module", name);
        close(fd);
    }
}

static _Noreturn void power_off(void) {
    sync();
    reboot(RB_POWER_OFF);
    for (;;) pause();
}

/* Nothing more can be said: the host ends the machine once it has read everything. */
static _Noreturn void finished(void) {
    send_all();
    for (;;) {
        struct frame frame = receive_blocking();
        free(frame.bytes);
    }
}

static _Noreturn void refuse(int error, const char *what) {
    unsigned char message[512];
    uint32_t number = (uint32_t)error;
    memcpy(message, &number, 4);
    size_t size = strnlen(what, sizeof message - 4);
    memcpy(message + 4, what, size);
    send_frame(NF_REFUSED, message, (uint32_t)(4 + size));
    finished();
}

/* Starts the cpus that the kernel was told to leave alone (MOST_AT_ONCE in shape.rs), and gives the last one the interrupts that came before
 * it was there. */
static void start_cpus(uint64_t last) {
    cpu_set_t there;
    if (sched_getaffinity(0, sizeof there, &there) != 0 || CPU_COUNT(&there) > 1) return;
    for (uint64_t cpu = 1; cpu <= last; cpu++) {
        char path[64];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%llu/online", (unsigned long long)cpu);
        if (!write_file(path, "1")) fail("cannot start the cpu of", path);
    }
    interrupts_on(last);
}

/* Started as `init ... CPU`: the cpu that the program starts on, which is none of the emulated machine's. Before
 * it come words of the kernel's command line that the kernel does not know itself. */
int main(int argc, char **argv) {
    if (getpid() != 1) {
        fprintf(stderr, "This is the first process of nearfar's virtual machine; it is nothing elsewhere.\n");
        return 2;
    }
    mount_or_fail("proc", "/proc");
    mount_or_fail("sysfs", "/sys");
    mount_or_fail("devtmpfs", "/dev");
    char *end = argv[argc - 1];
    uint64_t housekeeping = strtoul(argv[argc - 1], &end, 10);
    if (argc < 2 || end == argv[argc - 1] || *end) {
        errno = EINVAL;
        fail("the kernel's command line does not end with", "the housekeeping cpu");
    }
    start_cpus(housekeeping);
    /* Devices that come with modules have their interrupts where the command line says. */
    load_modules();
    if (!stay_on(0, housekeeping)) fail("cannot stay on", "the housekeeping cpu");
    environment_of_all_runs(housekeeping);
    channel_open();
    char *text = hello_text();
    send_frame(NF_HELLO, text, (uint32_t)strlen(text));
    send_all();

    struct frame frame = receive_blocking();
    if (frame.kind != NF_JOB) power_off();
    struct job job = job_parse(&frame);
    environment_clock();
    environment_settings(&job);
    const char *what = "";
    if (!environment_mount(&job, &what)) refuse(errno, what);
    struct streams streams;
    pid_t child = child_start(&job, &streams, &what);
    if (child < 0) refuse(errno, what);
    send_frame(NF_STARTED, NULL, 0);
    int status = relay(child, &streams);
    environment_leave();
    send_number(NF_EXIT, (uint32_t)status);
    finished();
}
