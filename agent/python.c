/* Which lines of Python allocate: the innermost frames of the interpreter's stack.
 *
 * Nothing of the interpreter is called but functions that return a pointer: PyGILState_GetThisThreadState, which is
 * pthread_getspecific, and three that are a load each. Nothing is allocated, locked or changed. The frames of a thread
 * stay as they are until the hook returns: only the thread itself adds and removes them, and a frame holds its code
 * object. Whose they are is certain where this thread holds the interpreter's lock (then it runs the state), and where
 * there is one interpreter only: NumPy gives the lock away around calloc.
 *
 * Where the fields are depends on the version. Those of 3.11 to 3.13 are below; of others no line is known. A build with
 * another layout (Py_TRACE_REFS, no lock) is recognised by the types of what the fields lead to: until that was right
 * once, everything is read through the kernel, which refuses what is not memory. So it is, always, in a thread without
 * the lock: when the interpreter ends, it takes the states of threads that still run. */
#include "agent.h"

#include <string.h>
#include <sys/uio.h>

struct layout {
    uint16_t version;           /* 0x030b is 3.11 */
    bool direct;                /* the thread state has the frame, not a struct of the C stack's */
    uint16_t state, current;    /* in the thread state: that; in that: the frame */
    uint16_t code, previous, instruction, owner;         /* in a frame */
    uint16_t first_line, file, name, lines, instructions; /* in a code object */
    uint16_t text;              /* where the letters of an ASCII string begin */
};
static const struct layout layouts[] = {
    {0x030b, false, 56, 8, 32, 48, 56, 69, 72, 112, 120, 136, 184, 48},
    {0x030c, false, 56, 0, 0, 8, 56, 70, 68, 112, 120, 136, 192, 40},
    {0x030d, true, 72, 0, 0, 8, 56, 70, 68, 112, 120, 136, 200, 40},
};
enum { TYPE = 8, SIZE = 16, UNICODE_STATE = 32, BYTES = 32, COMPACT_ASCII = 0x60, OF_C = 3 /* a frame that is only a mark */ };

static const struct layout *layout;
static void *(*this_state)(void), *(*running_state)(void), *(*newest)(void), *(*oldest)(void);
static uintptr_t code_type, bytes_type, text_type;
static _Atomic bool proven;

void nf_python_init(void) {
    const unsigned long *version = nf_symbol("Py_Version");
    void *this = nf_symbol("PyGILState_GetThisThreadState"), *running = nf_symbol("_PyThreadState_UncheckedGet");
    if (!running) running = nf_symbol("PyThreadState_GetUnchecked"); /* its name since 3.13 */
    void *head = nf_symbol("PyInterpreterState_Head"), *main = nf_symbol("PyInterpreterState_Main");
    code_type = (uintptr_t)nf_symbol("PyCode_Type");
    bytes_type = (uintptr_t)nf_symbol("PyBytes_Type");
    text_type = (uintptr_t)nf_symbol("PyUnicode_Type");
    if (!version || !this || !running || !head || !main || !code_type || !bytes_type || !text_type) return;
    memcpy(&this_state, &this, sizeof this);
    memcpy(&running_state, &running, sizeof running);
    memcpy(&newest, &head, sizeof head);
    memcpy(&oldest, &main, sizeof main);
    for (unsigned i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == *version >> 16) layout = &layouts[i];
}

/* How many bytes could be read. `direct`: they are known to be memory. */
static size_t get(bool direct, uintptr_t from, void *to, size_t bytes) {
    if (from < 4096) return 0;
    if (direct) {
        memcpy(to, (const void *)from, bytes);
        return bytes;
    }
    struct iovec here = {to, bytes}, there = {(void *)from, bytes};
    long got = nf_quiet() ? -1 : nf_sys(SYS_process_vm_readv, nf_sys(SYS_getpid), &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

static uintptr_t word(bool direct, uintptr_t at) {
    uintptr_t value = 0;
    return get(direct, at, &value, sizeof value) == sizeof value ? value : 0;
}

static bool is_a(bool direct, uintptr_t object, uintptr_t type) {
    return object && word(direct, object + TYPE) == type;
}

/* Innermost first. */
__attribute__((no_sanitize("thread", "address")))
unsigned nf_python_frames(struct nf_python_frame *frames) {
    if (LIKELY(!layout)) return 0;
    uintptr_t state = (uintptr_t)this_state();
    bool locked = state == (uintptr_t)running_state();
    if (!state || (!locked && newest() != oldest())) return 0;
    bool direct = locked && atomic_load_explicit(&proven, memory_order_relaxed);
    uintptr_t frame = word(direct, state + layout->state);
    if (!layout->direct) frame = frame ? word(direct, frame + layout->current) : 0;
    unsigned count = 0;
    /* Marks of C lie between frames: so many at most, should a circle be read. */
    for (unsigned seen = 0; frame && count < NF_PYTHON_FRAMES && seen < 4 * NF_PYTHON_FRAMES; seen++) {
        struct nf_python_frame *f = &frames[count];
        unsigned char owner = 0;
        get(direct, frame + layout->owner, &owner, 1);
        f->code = word(direct, frame + layout->code);
        f->instruction = word(direct, frame + layout->instruction);
        frame = word(direct, frame + layout->previous);
        if (owner == OF_C) continue;
        if (!is_a(direct, f->code, code_type)) break;
        f->lines = word(direct, f->code + layout->lines);
        f->file = word(direct, f->code + layout->file);
        f->name = word(direct, f->code + layout->name);
        f->direct = direct;
        f->first_line = 0;
        get(direct, f->code + layout->first_line, &f->first_line, sizeof f->first_line);
        if (!is_a(direct, f->lines, bytes_type) || !is_a(direct, f->file, text_type) || !is_a(direct, f->name, text_type)) break;
        count++;
    }
    if (count) atomic_store_explicit(&proven, true, memory_order_relaxed);
    return count;
}

/* The bytes of a line table, one by one. */
struct reader {
    bool direct;
    uintptr_t at, end;
};
static int byte(struct reader *r) {
    unsigned char b;
    return r->at < r->end && get(r->direct, r->at++, &b, 1) == 1 ? b : -1;
}
static unsigned number(struct reader *r) {
    unsigned value = 0;
    for (unsigned shift = 0; shift < 32; shift += 6) {
        int b = byte(r);
        if (b < 0) return value;
        value |= (unsigned)(b & 63) << shift;
        if (!(b & 64)) break;
    }
    return value;
}
static int signed_number(struct reader *r) {
    unsigned value = number(r);
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

/* Line of the running instruction (Objects/locations.md of CPython describes the table); 0 if it has none. */
static int line_of(const struct nf_python_frame *f) {
    uintptr_t begin = f->code + layout->instructions, size = word(f->direct, f->lines + SIZE);
    if (f->instruction < begin) return f->first_line; /* nothing of it has run */
    uintptr_t unit = (f->instruction - begin) / 2, at = 0;
    struct reader r = {f->direct, f->lines + BYTES, f->lines + BYTES + size};
    int line = f->first_line;
    for (int b; (b = byte(&r)) >= 0;) {
        unsigned kind = (unsigned)b >> 3 & 15;
        if (kind == 14 || kind == 13) line += signed_number(&r);
        if (kind == 14) number(&r), number(&r), number(&r); /* its end, and columns */
        if (kind >= 10 && kind <= 12) line += (int)kind - 10, r.at += 2;
        if (kind < 10) r.at += 1;
        at += ((unsigned)b & 7) + 1;
        if (unit < at) return kind == 15 ? 0 : line;
    }
    return 0;
}

/* Letters of a string, which must be ASCII; false if it is not, or there is no room. */
static bool letters(bool direct, uintptr_t string, char **to, const char *end) {
    uint32_t state = 0;
    uintptr_t length = word(direct, string + SIZE);
    if (get(direct, string + UNICODE_STATE, &state, sizeof state) != sizeof state || (state & COMPACT_ASCII) != COMPACT_ASCII)
        return false;
    if (length >= (uintptr_t)(end - *to) || get(direct, string + layout->text, *to, length) != length) return false;
    *to += length;
    return true;
}

static bool put(char c, char **to, const char *end) {
    if (*to >= end) return false;
    *(*to)++ = c;
    return true;
}

static bool digits(unsigned value, char **to, const char *end) {
    char text[12];
    unsigned n = 0;
    do text[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        if (!put(text[--n], to, end)) return false;
    return true;
}

/* "LINE 0x1f FILE 0x1f FUNCTION 0x1e" of each frame, as many as fit; the bytes written. */
__attribute__((no_sanitize("thread", "address")))
size_t nf_python_text(const struct nf_python_frame *frames, unsigned count, char *text, size_t room) {
    char *to = text;
    for (unsigned i = 0; i < count; i++) {
        char *whole = to;
        const char *end = text + room;
        int line = line_of(&frames[i]);
        bool direct = frames[i].direct;
        if (line > 0 && digits((unsigned)line, &to, end) && put(0x1f, &to, end) &&
            letters(direct, frames[i].file, &to, end) && put(0x1f, &to, end) &&
            letters(direct, frames[i].name, &to, end) && put(0x1e, &to, end))
            continue;
        to = whole;
    }
    return (size_t)(to - text);
}
