/* Starts the program: its root, directory, user, limits, streams. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

extern char **environ;

/* What failed in the child, for the host's message. */
struct failure {
    int error;
    char what[256];
};

static _Noreturn void give_up(int report, const char *what) {
    struct failure failure = {.error = errno};
    snprintf(failure.what, sizeof failure.what, "%s", what);
    if (write(report, &failure, sizeof failure) < 0) { /* init sees the end of the pipe */ }
    _exit(127);
}

static void become_user(const struct job *job, int report) {
    if (job->user_count < 2) return;
    gid_t groups[256];
    size_t count = 0;
    for (size_t i = 2; i < job->user_count && count < 256; i++) groups[count++] = (gid_t)job->user[i];
    if (setgroups(count, groups) != 0 || setgid((gid_t)job->user[1]) != 0 || setuid((uid_t)job->user[0]) != 0)
        give_up(report, "to become the user of the host");
}

/* A terminal of the guest that passes bytes as they are: the host's terminal does the rest. */
static int open_terminal(const struct job *job, int *slave) {
    int master = open(NEW_ROOT "/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int unlock = 0;
    unsigned number;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) != 0 || ioctl(master, TIOCGPTN, &number) != 0)
        return -1;
    char path[64];
    snprintf(path, sizeof path, NEW_ROOT "/dev/pts/%u", number);
    *slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave < 0) return -1;
    struct termios settings;
    if (tcgetattr(*slave, &settings) == 0) {
        settings.c_oflag &= ~(tcflag_t)OPOST;
        /* Lines are edited, echoed and turned into signals by the host's terminal; ICANON
         * stays, so that an end of file can be said. */
        settings.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | ISIG);
        settings.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IXON | IXOFF);
        tcsetattr(*slave, TCSANOW, &settings);
    }
    struct winsize size = {.ws_row = (unsigned short)job->rows, .ws_col = (unsigned short)job->columns};
    ioctl(master, TIOCSWINSZ, &size);
    if (fchown(*slave, job->user_count ? (uid_t)job->user[0] : 0, (gid_t)-1) != 0) { /* root's, then */ }
    return master;
}

pid_t child_start(const struct job *job, struct streams *streams, const char **what) {
    static struct failure failure;
    int pipes[3][2], report[2], slave = -1;
    *streams = (struct streams){-1, -1, -1, -1, false};
    *what = "to make pipes";
    for (int i = 0; i < 3; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) != 0) return -1;
        int ours = pipes[i][i == 0 ? 1 : 0];
        fcntl(ours, F_SETFL, O_NONBLOCK);
        /* The program may be another user's and reopen /dev/stdout by name. */
        if (job->user_count && fchown(pipes[i][0], (uid_t)job->user[0], (gid_t)-1) != 0) return -1;
    }
    if (pipe2(report, O_CLOEXEC) != 0) return -1;
    if (job->terminal) {
        *what = "to make a terminal";
        streams->terminal = open_terminal(job, &slave);
        if (streams->terminal < 0) return -1;
    }
    *what = "to make a process";
    pid_t child = fork();
    if (child < 0) return -1;
    if (child == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setsid();
        if (slave >= 0) ioctl(slave, TIOCSCTTY, 0);
        for (int i = 0; i < 3; i++) {
            int own = i == 2 && job->one_output ? 1 : i;
            int end = (job->terminal >> i) & 1 ? slave : pipes[own][own == 0 ? 0 : 1];
            if (dup2(end, i) < 0) give_up(report[1], "to pass the streams");
        }
        for (size_t i = 0; i < job->limit_count; i++) {
            /* As far as the guest's kernel goes along: its maximum of open files may differ. */
            struct rlimit limit = {job->limits[i].soft, job->limits[i].hard};
            setrlimit((__rlimit_resource_t)job->limits[i].resource, &limit);
        }
        umask((mode_t)job->umask);
        if (chroot(NEW_ROOT) != 0) give_up(report[1], "to enter the host's file system");
        become_user(job, report[1]);
        if (chdir(job->directory) != 0) give_up(report[1], job->directory);
        environ = job->variables;
        execvp(job->arguments[0], job->arguments);
        give_up(report[1], job->arguments[0]);
    }
    close(report[1]);
    for (int i = 0; i < 3; i++) close(pipes[i][i == 0 ? 0 : 1]);
    if (slave >= 0) close(slave);
    ssize_t got;
    do got = read(report[0], &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    close(report[0]);
    if (got == (ssize_t)sizeof failure) {
        *what = failure.what;
        errno = failure.error;
        return -1;
    }
    streams->in = pipes[0][1];
    if (job->terminal & 1) {
        close(streams->in);
        streams->in = fcntl(streams->terminal, F_DUPFD_CLOEXEC, 0);
        streams->in_is_terminal = true;
    }
    streams->out = pipes[1][0];
    streams->error = pipes[2][0];
    return child;
}
