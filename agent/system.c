/* What stands in for the C library: see system.h. */
#include "agent.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>

/* The compiler may call these whatever the flags say. Hidden: the program keeps its own. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    unsigned char *t = to;
    const unsigned char *f = from;
    while (bytes--) *t++ = *f++;
    return to;
}
void *memset(void *to, int value, size_t bytes) {
    unsigned char *t = to;
    while (bytes--) *t++ = (unsigned char)value;
    return to;
}
void *memmove(void *to, const void *from, size_t bytes) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t <= f) return memcpy(to, from, bytes);
    while (bytes--) t[bytes] = f[bytes];
    return to;
}
int memcmp(const void *a, const void *b, size_t bytes) {
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i]) return x[i] - y[i];
    return 0;
}
size_t strlen(const char *text) {
    size_t n = 0;
    while (text[n]) n++;
    return n;
}

/* Weak: a program without a C library has none of these, and starts all the same. Before glibc 2.34 dlsym is in
 * a library of its own, which not every program loads; the C library's private way to it is always there. */
extern void *dlsym(void *restrict, const char *restrict) __attribute__((weak));
extern void *__libc_dlopen_mode(const char *, int) __attribute__((weak));
extern void *__libc_dlsym(void *, const char *) __attribute__((weak));
extern char **environ __attribute__((weak));

typedef void *look_up_function(void *, const char *);

static look_up_function *look_up(void) {
    static look_up_function *found;
    if (LIKELY(found != NULL)) return found;
    if (dlsym) {
        found = dlsym;
    } else if (__libc_dlopen_mode && __libc_dlsym) {
        void *library = __libc_dlopen_mode("libdl.so.2", RTLD_LAZY);
        void *f = library ? __libc_dlsym(library, "dlsym") : NULL;
        memcpy(&found, &f, sizeof found);
    }
    return found;
}

bool nf_has_library(void) { return look_up() != NULL; }

/* dlsym may take memory itself (its error text): that comes from allocator hooks
 * while they have no next yet, and is served in heap.c. Old C libraries keep
 * threads in a library that the program may have loaded privately. */
static void *found(void *where, const char *name) {
    look_up_function *find = look_up();
    if (!find) return NULL;
    int saved = errno;
    nf_self.guard++;
    void *f = find(where, name);
    if (!f) {
        void *(*open)(const char *, int);
        void *opener = find(RTLD_DEFAULT, "dlopen");
        memcpy(&open, &opener, sizeof open);
        void *library = open ? open("libpthread.so.0", RTLD_LAZY | RTLD_NOLOAD) : NULL;
        if (library) f = find(library, name);
    }
    nf_self.guard--;
    errno = saved;
    return f;
}

void *nf_next(const char *name) { return found(RTLD_NEXT, name); }
void *nf_symbol(const char *name) { return found(RTLD_DEFAULT, name); }

const char *nf_environment(const char *name) {
    size_t length = strlen(name);
    for (char **at = &environ ? environ : NULL; at && *at; at++)
        if (memcmp(*at, name, length) == 0 && (*at)[length] == '=') return *at + length + 1;
    return NULL;
}

bool nf_number(const char **text, unsigned long most, unsigned long *to) {
    const char *at = *text;
    unsigned long number = 0;
    while (*at >= '0' && *at <= '9') {
        unsigned long digit = (unsigned long)(*at - '0');
        if (number > (most - digit) / 10) return false;
        number = number * 10 + digit;
        at++;
    }
    if (at == *text) return false;
    *text = at;
    *to = number;
    return true;
}

size_t nf_read_file(const char *path, char *to, size_t room) {
    long fd = nf_sys(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    size_t had = 0;
    while (had < room) {
        long got = nf_sys(SYS_read, fd, to + had, room - had);
        if (got <= 0) break;
        had += (size_t)got;
    }
    nf_sys(SYS_close, fd);
    return had;
}

long nf_answer(long result) {
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
