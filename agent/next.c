/* The next definition of a hooked function, and memory for the time before it is known. */
#include "agent.h"

#include <dlfcn.h>

/* dlsym may take memory itself (its error text): that comes from allocator hooks
 * while they have no next yet, and is served in heap.c. Old C libraries keep
 * threads in a library that the program may have loaded privately. */
void *nf_next(const char *name) {
    int saved = errno;
    nf_self.guard++;
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) {
        void *library = dlopen("libpthread.so.0", RTLD_LAZY | RTLD_NOLOAD);
        if (library) f = dlsym(library, name);
    }
    nf_self.guard--;
    errno = saved;
    return f;
}
