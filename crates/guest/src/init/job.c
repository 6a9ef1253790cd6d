/* The host's message: what to run and how. */
#include "init.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *grow(void *memory, size_t size) {
    memory = realloc(memory, size);
    if (!memory) fail("out of memory for", "the job");
    return memory;
}

static char *as_text(const unsigned char *bytes, size_t size) {
    char *text = grow(NULL, size + 1);
    memcpy(text, bytes, size);
    text[size] = 0;
    return text;
}

/* Number `index` of a field; 0 beyond its end. */
static uint64_t number(const unsigned char *bytes, size_t size, size_t index) {
    uint64_t value = 0;
    if (size >= (index + 1) * 8) memcpy(&value, bytes + index * 8, 8);
    return value;
}

static void append(char ***list, size_t *count, char *text) {
    *list = grow(*list, (*count + 2) * sizeof **list);
    (*list)[(*count)++] = text;
    (*list)[*count] = NULL;
}

struct job job_parse(const struct frame *frame) {
    struct job job = {.directory = "/", .umask = 022};
    size_t arguments = 0, variables = 0;
    for (size_t at = 0; at + 8 <= frame->size;) {
        uint32_t head[2];
        memcpy(head, frame->bytes + at, 8);
        const unsigned char *bytes = frame->bytes + at + 8;
        size_t size = head[1];
        if (size > frame->size - at - 8) {
            errno = EBADMSG;
            fail("the host sent", "a field that goes beyond its frame");
        }
        at += 8 + size;
        switch (head[0]) {
        case NF_ARGUMENT: append(&job.arguments, &arguments, as_text(bytes, size)); break;
        case NF_VARIABLE: append(&job.variables, &variables, as_text(bytes, size)); break;
        case NF_DIRECTORY: job.directory = as_text(bytes, size); break;
        case NF_WRITABLE: job.writable = as_text(bytes, size); break;
        case NF_THP: job.thp = as_text(bytes, size); break;
        case NF_HOSTNAME: job.hostname = as_text(bytes, size); break;
        case NF_BALANCING: job.balancing = number(bytes, size, 0) != 0; break;
        case NF_UMASK: job.umask = number(bytes, size, 0); break;
        case NF_ONE_OUTPUT: job.one_output = number(bytes, size, 0) != 0; break;
        case NF_FIRST_PID: job.first_pid = number(bytes, size, 0); break;
        case NF_USER:
            job.user_count = size / 8;
            job.user = (uint64_t *)(void *)as_text(bytes, size);
            break;
        case NF_SEED:
            job.seed_size = size;
            job.seed = (unsigned char *)as_text(bytes, size);
            break;
        case NF_TERMINAL:
            job.terminal = number(bytes, size, 0);
            job.rows = number(bytes, size, 1);
            job.columns = number(bytes, size, 2);
            break;
        case NF_LIMIT:
            job.limits = grow(job.limits, (job.limit_count + 1) * sizeof *job.limits);
            job.limits[job.limit_count++] =
                (struct limit){number(bytes, size, 0), number(bytes, size, 1), number(bytes, size, 2)};
            break;
        default:
            errno = EBADMSG;
            fail("the host sent", "a field of unknown kind");
        }
    }
    if (arguments == 0) {
        errno = EBADMSG;
        fail("the host sent", "a job without a program");
    }
    if (!job.variables) append(&job.variables, &variables, NULL);
    return job;
}
