/* Between the program and the host: its streams, signals for it, its end. */
#include "init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Most that waits here for the port: beyond it the program's own pipes fill, and it waits as
 * it would for a slow reader. */
#define OUTPUT_LIMIT (256u << 10)
/* Most of stdin that the host may send ahead. */
#define INPUT_WINDOW (64u << 10)

static struct streams *streams;
static pid_t child;
/* Stdin on its way to the program. */
static unsigned char pending[INPUT_WINDOW];
static size_t pending_start, pending_end;
static bool input_ended;

static int input_fd(void) { return streams->in; }

static void close_stream(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void forward_input(void) {
    while (input_fd() >= 0 && pending_start < pending_end) {
        ssize_t put = write(input_fd(), pending + pending_start, pending_end - pending_start);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && errno == EAGAIN) return;
        if (put < 0) {
            /* The program does not read any more: what comes is dropped, as in a pipe. */
            close_stream(&streams->in);
            break;
        }
        pending_start += (size_t)put;
        send_number(NF_CREDIT, (uint32_t)put);
    }
    pending_start = pending_end = 0;
    if (!input_ended || input_fd() < 0) return;
    /* A terminal says its end by a character, and stays. */
    if (streams->in_is_terminal && write(input_fd(), "\004", 1) < 0) { /* it is gone */ }
    close_stream(&streams->in);
}

static void take_input(const struct frame *frame) {
    if (frame->size == 0) {
        input_ended = true;
    } else if (input_fd() >= 0) {
        if (pending_end + frame->size > sizeof pending) {
            memmove(pending, pending + pending_start, pending_end - pending_start);
            pending_end -= pending_start;
            pending_start = 0;
        }
        if (pending_end + frame->size > sizeof pending) {
            errno = EMSGSIZE;
            fail("the host sent", "more of stdin than it may");
        }
        memcpy(pending + pending_end, frame->bytes, frame->size);
        pending_end += frame->size;
    }
    forward_input();
}

static void deliver(uint32_t signal, uint32_t whom) {
    pid_t to = whom == NF_ALL ? -1 : whom == NF_GROUP ? -child : child;
    kill(to, (int)signal);
}

static void take(const struct frame *frame) {
    uint32_t numbers[2] = {0, 0};
    memcpy(numbers, frame->bytes, frame->size < 8 ? frame->size : 8);
    switch (frame->kind) {
    case NF_STDIN: take_input(frame); break;
    case NF_SIGNAL: deliver(numbers[0], numbers[1]); break;
    case NF_CLOSE: close_stream(numbers[0] == 1 ? &streams->out : &streams->error); break;
    case NF_WINDOW: {
        struct winsize size = {.ws_row = numbers[0] & 0xffff, .ws_col = (unsigned short)(numbers[0] >> 16)};
        if (streams->terminal >= 0) ioctl(streams->terminal, TIOCSWINSZ, &size);
        break;
    }
    default: break;
    }
}

/* Hands on what the program wrote; false once there is nothing now. */
static bool forward_output(int *fd, uint32_t kind) {
    static unsigned char bytes[65536];
    if (*fd < 0) return false;
    ssize_t got = read(*fd, bytes, sizeof bytes);
    if (got > 0) {
        send_frame(kind, bytes, (uint32_t)got);
        return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    close_stream(fd);
    return false;
}

/* Collects ended processes; true, with its status, once the program is among them. */
static bool collect(int *status) {
    bool ended = false;
    int one;
    for (pid_t pid; (pid = waitpid(-1, &one, WNOHANG)) > 0;) {
        if (pid == child) {
            *status = one;
            ended = true;
        }
    }
    return ended;
}

static void drain(void) {
    bool more = true;
    while (more) {
        more = forward_output(&streams->error, NF_STDERR);
        more |= forward_output(&streams->out, NF_STDOUT);
        more |= forward_output(&streams->terminal, NF_STDOUT);
        send_all();
    }
}

int relay(pid_t program, struct streams *ends) {
    child = program;
    streams = ends;
    signal(SIGPIPE, SIG_IGN);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    int ended = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ended < 0) fail("cannot make", "a signalfd");
    send_number(NF_CREDIT, INPUT_WINDOW);

    int status = 0;
    while (!collect(&status)) {
        bool room = send_queued() < OUTPUT_LIMIT;
        struct pollfd waits[] = {
            {.fd = ended, .events = POLLIN},
            {.fd = channel_fd(), .events = (short)(POLLIN | (send_pending() ? POLLOUT : 0))},
            {.fd = room ? streams->error : -1, .events = POLLIN},
            {.fd = room ? streams->out : -1, .events = POLLIN},
            {.fd = pending_start < pending_end ? input_fd() : -1, .events = POLLOUT},
            {.fd = room ? streams->terminal : -1, .events = POLLIN},
        };
        if (poll(waits, sizeof waits / sizeof *waits, -1) < 0) continue;
        struct signalfd_siginfo discard;
        while (read(ended, &discard, sizeof discard) > 0) {}
        if (waits[1].revents & POLLHUP) usleep(10000);
        send_some();
        for (struct frame frame; receive(&frame);) take(&frame);
        if (waits[2].revents) forward_output(&streams->error, NF_STDERR);
        if (waits[3].revents) forward_output(&streams->out, NF_STDOUT);
        if (waits[5].revents) forward_output(&streams->terminal, NF_STDOUT);
        if (waits[4].revents) forward_input();
    }
    drain();
    return status;
}
