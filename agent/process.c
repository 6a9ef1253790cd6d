/* The life of a process: attach, fork, exec, exit. */
#include "agent.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Records the text of /proc/self/maps, a piece per record. */
void nf_send_maps(void) {
    if (!(nf_process.flags & NF_SET_MAPS)) return;
    long fd = nf_sys(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    static char text[16384]; /* only the attaching or the exiting thread comes here */
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&busy)) {
        long got;
        while ((got = nf_sys(SYS_read, fd, text, sizeof text)) > 0) {
            struct nf_range head = {.to = (uint64_t)got};
            nf_emit(NF_MAPS, 1, &head, sizeof head, text, (size_t)got, true);
        }
        struct nf_range head = {0};
        nf_emit(NF_MAPS, 0, &head, sizeof head, NULL, 0, true);
        atomic_flag_clear(&busy);
    }
    nf_sys(SYS_close, fd);
}

/* glibc exports only the function behind pthread_atfork, musl only that. */
static void at_fork(void (*child)(void)) {
    int (*of_glibc)(void (*)(void), void (*)(void), void (*)(void), void *);
    int (*of_posix)(void (*)(void), void (*)(void), void (*)(void));
    void *f = nf_symbol("__register_atfork");
    memcpy(&of_glibc, &f, sizeof of_glibc);
    if (of_glibc) {
        of_glibc(NULL, NULL, child, NULL);
        return;
    }
    f = nf_symbol("pthread_atfork");
    memcpy(&of_posix, &f, sizeof of_posix);
    if (of_posix) of_posix(NULL, NULL, child);
}

static void after_fork(void) {
    nf_after_fork();
    nf_sampling_thread_start();
}

/* `environ` may already be the program's own; the agent was named when it began. */
__attribute__((constructor)) static void start(void) {
    if (!nf_has_library()) return;
    int saved = errno;
    nf_self.guard = 1;
    nf_clock_init();
    const char *path = nf_environment("NEARFAR_AGENT");
    nf_pins_init();
    size_t least = nf_places_init();
    if (path && nf_attach(path)) {
        nf_sites_init();
        nf_python_init();
        at_fork(after_fork);
        char name[1024];
        long length = nf_sys(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", name, sizeof name);
        if (length < 0) length = 0;
        struct nf_hello hello = {.pid = nf_process.told_pid,
                                 .path_bytes = (uint32_t)length};
        nf_emit(NF_HELLO, 0, &hello, sizeof hello, name, (size_t)length, true);
        nf_threads_init();
        nf_thread_here(true);
        nf_send_maps();
        nf_sampling_init();
        nf_sampling_thread_start();
        /* From here on hooks record. */
        nf_process.record_from = nf_process.header->min_object ? nf_process.header->min_object : 1;
        atomic_store(&nf_process.min_object, nf_process.record_from);
        nf_self.small_left = 0;
        nf_mpi_init();
        nf_program_begins();
    }
    if (least < atomic_load(&nf_process.min_object)) atomic_store(&nf_process.min_object, least);
    nf_self.guard = 0;
    errno = saved;
}

static void finish(void) {
    static _Atomic uint64_t finished_epoch;
    uint64_t epoch = atomic_load(&nf_process.epoch);
    /* Nothing may be asked for any more; what there was to say was said when the filter came. */
    if (nf_quiet() || !nf_process.segment || !nf_is_own_process() || atomic_exchange(&finished_epoch, epoch) == epoch || !nf_enter()) return;
    int saved = errno;
    nf_last_words();
    nf_phases_exit();
    nf_objects_tell(true);
    nf_page_nodes_at_exit(nf_objects_each);
    nf_send_maps();
    nf_emit(NF_EXIT, 0, NULL, 0, NULL, 0, true);
    nf_close_segment();
    errno = saved;
    nf_leave();
}

__attribute__((destructor)) static void at_exit(void) { finish(); }

EXPORT void _exit(int status) {
    finish();
    /* What the C library's own does; a look-up here could meet locks held by threads that stay. */
    for (;;) nf_sys(SYS_exit_group, status);
}
EXPORT void _Exit(int status) { _exit(status); }

EXPORT void quick_exit(int status) {
    finish();
    __typeof__(&quick_exit) next = NF_NEXT(quick_exit);
    if (next) next(status);
    _exit(status);
}

/* The announcement is made before; the new image makes its own claim. In the
 * child of a vfork this is the parent's memory: nothing may be done there. */
static bool before_exec(void) {
    if (nf_quiet()) return false;
    nf_pins_before_exec();
    if (!nf_attached() || !nf_is_own_process()) return false;
    int saved = errno;
    nf_sampling_before_exec();
    if (nf_enter()) {
        nf_emit(NF_EXEC, 0, NULL, 0, NULL, 0, true);
        nf_leave();
    }
    errno = saved;
    return true;
}

static void exec_failed(bool announced) {
    int saved = errno;
    if (announced) nf_sampling_exec_failed();
    errno = saved;
}

#define EXEC(name, parameters, ...)                     \
    static __typeof__(&name) next_##name;               \
    /* Early: in the child of a fork or vfork a look-up could meet a held lock. */ \
    __attribute__((constructor)) static void find_##name(void) { next_##name = NF_NEXT(name); } \
    EXPORT int name parameters {                        \
        if (!next_##name) find_##name();                \
        if (!next_##name) {                             \
            errno = ENOSYS;                             \
            return -1;                                  \
        }                                               \
        bool announced = before_exec();                 \
        int result = next_##name(__VA_ARGS__);          \
        exec_failed(announced);                         \
        return result;                                  \
    }

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), path, argv, envp)
EXEC(execv, (const char *path, char *const argv[]), path, argv)
EXEC(execvp, (const char *file, char *const argv[]), file, argv)
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), file, argv, envp)
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), fd, argv, envp)

/* The forms with a list of arguments: the C library would run its own execve inside,
 * past the hook above, and a tick during the exec would kill the new image. */
#define EXECL(name, has_environment, call)                                            \
    EXPORT int name(const char *path, const char *first, ...) {                      \
        va_list rest;                                                                 \
        const char *volatile given = first; /* declared never NULL, and yet it can be */ \
        size_t count = given != NULL;                                                 \
        va_start(rest, first);                                                        \
        while (given && va_arg(rest, const char *)) count++;                          \
        va_end(rest);                                                                 \
        const char *arguments[count + 1];                                             \
        arguments[0] = first;                                                         \
        va_start(rest, first);                                                        \
        for (size_t i = 1; i <= count; i++) arguments[i] = va_arg(rest, const char *); \
        char **environment = has_environment ? va_arg(rest, char **) : NULL;          \
        va_end(rest);                                                                 \
        char *const *argv = (char *const *)arguments;                                 \
        (void)environment;                                                            \
        return call;                                                                  \
    }

EXECL(execl, false, execv(path, argv))
EXECL(execlp, false, execvp(path, argv))
EXECL(execle, true, execve(path, argv, environment))
