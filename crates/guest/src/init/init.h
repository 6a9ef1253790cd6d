/* The guest's first and only process of its own: see main.c. */
#ifndef NEARFAR_GUEST_INIT_H
#define NEARFAR_GUEST_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "protocol.h"

/* Ends everything: a line on the console, then the machine off. */
_Noreturn void fail(const char *what, const char *which);

/* files.c: small files of /proc and /sys. */
bool write_file(const char *path, const char *text);
/* A whole file, NUL-terminated, in memory that is never freed; NULL if it cannot be read. */
char *read_file(const char *path, size_t *size);
void make_directory(const char *path);

/* What the kernel reads the time from. */
#define CLOCK "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* hello.c */
char *hello_text(void);

/* channel.c: frames. All descriptors are non-blocking except for `receive_blocking`. */
struct frame {
    uint32_t kind, size;
    unsigned char *bytes;
};
void channel_open(void);
int channel_fd(void);
/* Waits for a whole frame; the bytes are malloc'd. */
struct frame receive_blocking(void);
/* Reads what is there; true once a whole frame is there. `frame->bytes` stay valid until
 * the next call. */
bool receive(struct frame *frame);
/* Takes a frame into the queue and writes what the port takes now. */
void send_frame(uint32_t kind, const void *bytes, uint32_t size);
void send_number(uint32_t kind, uint32_t value);
bool send_pending(void);
size_t send_queued(void);
void send_some(void);
void send_all(void);

/* job.c */
struct job {
    char **arguments, **variables;
    char *directory, *thp, *hostname, *writable;
    bool balancing, one_output;
    uint64_t *user;
    size_t user_count;
    uint64_t umask, terminal, rows, columns, first_pid;
    struct limit { uint64_t resource, soft, hard; } *limits;
    size_t limit_count;
    unsigned char *seed;
    size_t seed_size;
};
struct job job_parse(const struct frame *frame);

/* environment.c: the guest as the program should find it. */
void environment_clock(void);
#define NEW_ROOT "/host"
/* Whether the process (0: this one) may run nowhere else. */
bool stay_on(pid_t pid, uint64_t cpu);
void interrupts_on(uint64_t cpu);
/* What is the same for all runs, before the snapshot: each of these steps has the emulator translate much of
 * the kernel. */
void environment_of_all_runs(uint64_t housekeeping);
/* What the job asks for. */
void environment_settings(const struct job *job);
/* False, with errno and `what` set, if something that the program needs is not to be had. */
bool environment_mount(const struct job *job, const char **what);
void environment_leave(void);

/* child.c */
struct streams {
    /* The ends that init keeps; -1 where closed. With a terminal, `terminal` is its master. */
    int in, out, error, terminal;
    bool in_is_terminal;
};
/* Starts the program; its pid, or -1 with errno and `what` set. */
pid_t child_start(const struct job *job, struct streams *streams, const char **what);

/* relay.c: until the program has ended; its status as of wait(2). */
int relay(pid_t child, struct streams *streams);

#endif
