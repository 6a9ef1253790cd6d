/* Small files of /proc and /sys. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t size = strlen(text);
    bool whole = write(fd, text, size) == (ssize_t)size;
    int error = errno;
    close(fd);
    errno = error;
    return whole;
}

char *read_file(const char *path, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    size_t held = 0, room = 4096;
    char *text = malloc(room + 1);
    while (text) {
        ssize_t got = read(fd, text + held, room - held);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        held += (size_t)got;
        if (held == room) text = realloc(text, (room *= 2) + 1);
    }
    close(fd);
    if (!text) fail("out of memory reading", path);
    text[held] = 0;
    if (size) *size = held;
    return text;
}

void make_directory(const char *path) {
    if (mkdir(path, 0755) != 0 && errno != EEXIST) fail("cannot make the directory", path);
}
