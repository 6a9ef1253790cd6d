/* The kernel, and what is used of the program's C library.
 *
 * The agent is linked against no library and needs no symbol version: it is loaded into programs of glibc and
 * musl, older and newer than the one it was built with, and a reference that one of them does not have would
 * keep the program from starting. System calls are made directly; functions of the C library that are more than
 * a system call are looked up when the agent starts, and what is not there is done without. */
#ifndef NEARFAR_SYSTEM_H
#define NEARFAR_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Result or a negated errno, as the kernel gives it: errno is the program's. */
static inline long nf_sys6(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "the agent knows x86-64 and aarch64"
#endif
}
#define NF_SYS_OF(number, a, b, c, d, e, f, ...) \
    nf_sys6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define nf_sys(...) NF_SYS_OF(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* The definition behind ours; NULL where the program has none. */
void *nf_next(const char *name);
#define NF_NEXT(name) ((__typeof__(&name))nf_next(#name))
/* The first definition of a name in the program. */
void *nf_symbol(const char *name);
/* False in a program without a dynamic C library: then nothing can be found. */
bool nf_has_library(void);

/* Of the environment; NULL if there is none. */
const char *nf_environment(const char *name);
/* A number in decimal digits at `*text`, which is moved behind it; false if there is none or it is over `most`. */
bool nf_number(const char **text, unsigned long most, unsigned long *to);
/* Reads a small file; the bytes read, 0 on failure. */
size_t nf_read_file(const char *path, char *to, size_t room);
/* For a hook that makes the program's call itself: sets the program's errno. */
long nf_answer(long result);

#endif
