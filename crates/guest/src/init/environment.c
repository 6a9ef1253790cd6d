/* The guest as the program should find it: the host's files, the machine's settings. */
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BALANCING "/proc/sys/kernel/numa_balancing"

/* Every resume starts from the same random state. Programs would choose the same names for
 * their temporary files, which are the host's. */
static void seed(const struct job *job) {
    int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    struct rand_pool_info *pool = malloc(sizeof *pool + job->seed_size);
    if (pool) {
        pool->entropy_count = (int)job->seed_size * 8;
        pool->buf_size = (int)job->seed_size;
        memcpy(pool->buf, job->seed, job->seed_size);
        ioctl(fd, RNDADDENTROPY, pool);
        ioctl(fd, RNDRESEEDCRNG);
        free(pool);
    }
    close(fd);
}

static void loopback_up(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    strcpy(request.ifr_name, "lo");
    ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
}

static void set_number(const char *path, unsigned long long value) {
    char text[32];
    snprintf(text, sizeof text, "%llu", value);
    write_file(path, text);
}

/* The guest's clock stands at the snapshot's time. The question comes after the resume, which
 * takes a second: new files would be from the future otherwise. */
void environment_clock(void) {
    send_frame(NF_CLOCK, NULL, 0);
    send_all();
    struct frame frame = receive_blocking();
    uint64_t numbers[2];
    if (frame.kind == NF_TIME && frame.size == sizeof numbers) {
        memcpy(numbers, frame.bytes, sizeof numbers);
        struct timespec now = {(time_t)numbers[0], (long)numbers[1]};
        clock_settime(CLOCK_REALTIME, &now);
    }
    free(frame.bytes);
}

bool stay_on(pid_t pid, uint64_t cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((int)cpu, &set);
    return sched_setaffinity(pid, sizeof set, &set) == 0;
}

/* Kernel threads that may run anywhere keep off the program's cpus: a thread of the program that wakes up where one of them runs goes on
 * elsewhere, and the program's first pages were on another node in half of the runs. */
static void keep_kernel_threads_on(uint64_t cpu) {
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        /* Those of one cpu refuse, and those that are kept for when there is no memory. */
        if (pid > 0) stay_on(pid, cpu);
    }
    if (all) closedir(all);
    char mask[512];
    size_t digits = cpu / 4, at = 0;
    at += (size_t)snprintf(mask, sizeof mask, "%x", 1u << (cpu % 4));
    for (size_t left = digits; left > 0 && at + 3 < sizeof mask; left--) {
        if (left % 8 == 0) mask[at++] = ',';
        mask[at++] = '0';
    }
    mask[at] = 0;
    write_file("/sys/devices/virtual/workqueue/cpumask", mask);
}

/* Those of devices: the kernel keeps its own where they are. */
void interrupts_on(uint64_t cpu) {
    DIR *all = opendir("/proc/irq");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        char path[320], number[24];
        snprintf(path, sizeof path, "/proc/irq/%s/smp_affinity_list", entry->d_name);
        snprintf(number, sizeof number, "%llu", (unsigned long long)cpu);
        write_file(path, number);
    }
    if (all) closedir(all);
}

/* The kernel measures its counter of time for a second after it has begun, with the counter's first estimate as its clock ("tsc-early"), and
 * then changes to "tsc" with all cpus stopped. A snapshot of before would have that in each run, during the program. */
static void wait_for_the_clock(void) {
    const struct timespec hundredth = {.tv_nsec = 10000000};
    for (int n = 0; n < 1000; n++) {
        char *clock = read_file(CLOCK, NULL);
        bool early = clock && strcmp(clock, "tsc-early\n") == 0;
        free(clock);
        if (!early) return;
        nanosleep(&hundredth, NULL);
    }
}

void environment_of_all_runs(uint64_t housekeeping) {
    loopback_up();
    /* It would move this process's own pages about. */
    write_file(BALANCING, "0");
    /* The recorder may do here what an administrator's shell may do, as an ordinary user. */
    write_file("/proc/sys/kernel/perf_event_paranoid", "-1");
    write_file("/proc/sys/kernel/perf_event_mlock_kb", "1048576");
    write_file("/proc/sys/kernel/kptr_restrict", "0");
    write_file("/proc/sys/kernel/yama/ptrace_scope", "0");
    /* An emulated interrupt takes long; the kernel would lower the sampling rate for it. */
    write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
    /* What the program writes is on the host within a second, also if the machine dies. */
    write_file("/proc/sys/vm/dirty_writeback_centisecs", "50");
    write_file("/proc/sys/vm/dirty_expire_centisecs", "100");
    keep_kernel_threads_on(housekeeping);
    /* Once in an hour instead of each second: a thread of each cpu would do it. What /proc says is counted when it is read. */
    write_file("/proc/sys/vm/stat_interval", "3600");
    write_file("/proc/sys/kernel/pid_max", "4194304");
    wait_for_the_clock();
}

void environment_settings(const struct job *job) {
    if (job->seed_size) seed(job);
    if (job->hostname && sethostname(job->hostname, strlen(job->hostname)) != 0) {
        /* Kept as it was: "(none)". */
    }
    /* What the program should be judged under must be as asked, or not run at all. */
    if (job->thp && !write_file("/sys/kernel/mm/transparent_hugepage/enabled", job->thp))
        fail("cannot set transparent huge pages to", job->thp);
    if (!write_file(BALANCING, job->balancing ? "1" : "0")) fail("cannot set", BALANCING);
    /* Two resumes of one snapshot would give the same process ids, and programs put those
     * into names of files. */
    if (job->first_pid) set_number("/proc/sys/kernel/ns_last_pid", job->first_pid);
}

/* loose: pages of the host's files are cached and can be mapped, also shared and writable;
 * nothing else changes them meanwhile, as a rule. 512000 bytes are the most that the kernel's
 * ring of 128 pages takes (net/9p/trans_virtio.c). */
#define OF_THE_HOST "trans=virtio,version=9p2000.L,msize=512000,cache=loose,access=client"

struct filesystem {
    const char *source, *where, *type, *options;
    bool needed;
};

static const struct filesystem FILESYSTEMS[] = {
    {"proc", NEW_ROOT "/proc", "proc", NULL, true},
    {"sysfs", NEW_ROOT "/sys", "sysfs", NULL, true},
    {"devtmpfs", NEW_ROOT "/dev", "devtmpfs", NULL, true},
    {"devpts", NEW_ROOT "/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620", false},
    {"tmpfs", NEW_ROOT "/dev/shm", "tmpfs", "mode=1777", true},
    {"mqueue", NEW_ROOT "/dev/mqueue", "mqueue", NULL, false},
    {"tracefs", NEW_ROOT "/sys/kernel/tracing", "tracefs", NULL, false},
};

static void device_links(void) {
    static const char *const LINKS[][2] = {
        {"/proc/self/fd", "/fd"}, {"/proc/self/fd/0", "/stdin"},
        {"/proc/self/fd/1", "/stdout"}, {"/proc/self/fd/2", "/stderr"},
        {"pts/ptmx", "/ptmx"},
    };
    for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++) {
        char path[64];
        snprintf(path, sizeof path, NEW_ROOT "/dev%s", LINKS[i][1]);
        unlink(path);
        if (symlink(LINKS[i][0], path) != 0) { /* a program that wants it will report it */ }
    }
}

/* The host's files, which the emulator lets nobody change, below a layer of memory that takes
 * what is written; and the one directory that is written to for good. */
static bool mount_read_only_root(const char *writable, const char **what) {
    char where[4200];
    if (snprintf(where, sizeof where, NEW_ROOT "%s", writable) >= (int)sizeof where) {
        errno = ENAMETOOLONG;
        *what = "the writable directory";
        return false;
    }
    make_directory("/below");
    make_directory("/layer");
    *what = "/below";
    if (mount("host", "/below", "9p", MS_RDONLY, OF_THE_HOST) != 0) return false;
    *what = "/layer";
    if (mount("tmpfs", "/layer", "tmpfs", 0, "mode=755,size=75%") != 0) return false;
    make_directory("/layer/written");
    make_directory("/layer/work");
    *what = NEW_ROOT;
    if (mount("overlay", NEW_ROOT, "overlay", 0, "lowerdir=/below,upperdir=/layer/written,workdir=/layer/work") != 0)
        return false;
    *what = writable;
    return mount("out", where, "9p", 0, OF_THE_HOST) == 0;
}

bool environment_mount(const struct job *job, const char **what) {
    make_directory(NEW_ROOT);
    if (job->writable) {
        if (!mount_read_only_root(job->writable, what)) return false;
    } else if (mount("host", NEW_ROOT, "9p", 0, OF_THE_HOST) != 0) {
        *what = NEW_ROOT;
        return false;
    }
    for (size_t i = 0; i < sizeof FILESYSTEMS / sizeof *FILESYSTEMS; i++) {
        const struct filesystem *wanted = &FILESYSTEMS[i];
        /* Below /dev and /sys the directories are the guest's own; on the host, they must exist. */
        if (strncmp(wanted->where, NEW_ROOT "/dev/", sizeof NEW_ROOT + 4) == 0) mkdir(wanted->where, 0755);
        if (mount(wanted->source, wanted->where, wanted->type, 0, wanted->options) != 0 && wanted->needed) {
            *what = wanted->where;
            return false;
        }
    }
    device_links();
    return true;
}

/* Everything written is on the host before the host hears of the end. */
void environment_leave(void) {
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {}
    sync();
}
