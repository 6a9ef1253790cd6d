/* Threads: their begin, their stack's bounds, their end. */
#include "agent.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static pthread_key_t ends;
static bool have_key;
static __typeof__(&pthread_create) next_create;
static __typeof__(&pthread_setspecific) set_specific;
static __typeof__(&pthread_self) self;
static __typeof__(&pthread_getattr_np) attributes_of;
static __typeof__(&pthread_attr_getstack) stack_of;
static __typeof__(&pthread_attr_destroy) destroy;

/* Also for the main thread, whose value was set in the constructor. Runs for
 * pthread_exit and cancellation too; not at exit(), which EXIT tells. */
static void thread_ends(void *unused) {
    (void)unused;
    int saved = errno;
    nf_sampling_thread_end();
    if (nf_enter()) {
        nf_phases_thread_end();
        nf_emit(NF_THREAD_END, 0, NULL, 0, NULL, 0, true);
        nf_leave();
    }
    errno = saved;
}

void nf_threads_init(void) {
    __typeof__(&pthread_key_create) create = NF_NEXT(pthread_key_create);
    set_specific = NF_NEXT(pthread_setspecific);
    have_key = create && set_specific && create(&ends, thread_ends) == 0;
    self = NF_NEXT(pthread_self);
    attributes_of = NF_NEXT(pthread_getattr_np);
    stack_of = NF_NEXT(pthread_attr_getstack);
    destroy = NF_NEXT(pthread_attr_destroy);
    next_create = NF_NEXT(pthread_create);
}

static void main_stack(void) {
    void **end = nf_symbol("__libc_stack_end");
    struct rlimit limit;
    if (!end || !*end || nf_sys(SYS_prlimit64, 0, RLIMIT_STACK, NULL, &limit) != 0) return;
    /* The kernel keeps mappings at least 128 MiB away from the stack's top, whatever
     * the limit; further down could be anybody's memory. */
    uintptr_t most = 64u << 20;
    nf_self.stack_high = (uintptr_t)*end;
    nf_self.stack_low = nf_self.stack_high - (limit.rlim_cur < most ? limit.rlim_cur : most);
}

void nf_thread_here(bool main_thread) {
    if (main_thread) {
        main_stack();
    } else if (self && attributes_of && stack_of && destroy && !nf_quiet()) {
        pthread_attr_t attributes;
        void *low;
        size_t bytes;
        if (attributes_of(self(), &attributes) == 0) {
            if (stack_of(&attributes, &low, &bytes) == 0) {
                nf_self.stack_low = (uintptr_t)low;
                nf_self.stack_high = (uintptr_t)low + bytes;
            }
            destroy(&attributes);
        }
    }
    struct nf_stack stack = {.low = nf_self.stack_low, .high = nf_self.stack_high};
    nf_emit(NF_THREAD_START, 0, &stack, sizeof stack, NULL, 0, true);
    if (have_key) set_specific(ends, &ends);
}

struct begin {
    void *(*run)(void *);
    void *argument;
    unsigned pin;
};

static void *begin_thread(void *raw) {
    struct begin begin = *(struct begin *)raw;
    free(raw);
    int saved = errno;
    nf_await_filter();
    nf_pin_thread(begin.pin);
    if (nf_enter()) {
        nf_thread_here(false);
        nf_leave();
        nf_sampling_thread_start();
    }
    errno = saved;
    return begin.run(begin.argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *), void *argument) {
    if (UNLIKELY(!next_create)) next_create = NF_NEXT(pthread_create);
    if (UNLIKELY(!next_create)) return EAGAIN;
    int saved = errno;
    nf_await_filter();
    struct begin *begin = nf_attached() || nf_pins() ? malloc(sizeof *begin) : NULL;
    errno = saved;
    if (!begin) return next_create(thread, attributes, run, argument);
    *begin = (struct begin){run, argument, nf_pins_next()};
    int result = next_create(thread, attributes, begin_thread, begin);
    if (result != 0) free(begin);
    return result;
}
