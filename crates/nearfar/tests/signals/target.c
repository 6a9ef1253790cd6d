/* What a signal does to a program, said on its standard output. The highest signal ends it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static volatile sig_atomic_t times, value, queued, sender;

static void end(int signal) { (void)signal, over = 1; }
static void note(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    times++;
    queued = info->si_code == SI_QUEUE;
    if (queued) value = info->si_value.sival_int, sender = info->si_pid;
}

int main(int argc, char **argv) {
    if (argc != 4) return 99;
    int which = atoi(argv[2]), last = SIGRTMAX;
    sigset_t both, none;
    sigemptyset(&none);
    sigemptyset(&both);
    sigaddset(&both, which);
    sigaddset(&both, last);
    sigprocmask(SIG_BLOCK, &both, NULL);
    struct sigaction finish = {.sa_handler = end}, act = {.sa_handler = SIG_DFL};
    /* Both wait while one is handled: each is counted before the end. */
    sigfillset(&finish.sa_mask);
    sigaction(last, &finish, NULL);
    if (!strcmp(argv[1], "ignored")) act.sa_handler = SIG_IGN;
    if (!strcmp(argv[1], "handler")) act.sa_sigaction = note, act.sa_flags = SA_SIGINFO;
    if (strcmp(argv[1], "inherited")) sigaction(which, &act, NULL);
    int ready = open(argv[3], O_CREAT | O_WRONLY, 0600);
    if (ready < 0 || write(ready, "1\n", 2) != 2) return 98;
    close(ready);
    if (!strcmp(argv[1], "wait")) {
        siginfo_t info;
        while (sigwaitinfo(&both, &info) != last)
            printf("waited for %d, value %d\n", info.si_signo, info.si_code == SI_QUEUE ? info.si_value.sival_int : -1);
        printf("over\n");
        return 5;
    }
    sigset_t open_ = none;
    while (!over) sigsuspend(&open_);
    printf("over, handled %d times%s, value %d from %d\n", (int)times, queued ? " queued" : "", (int)value, (int)sender);
    return 6;
}
