/* Frames over the virtio-serial port. */
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT_NAME "nearfar"
/* A frame from the host is a job at most: arguments and environment, which Linux limits to
 * 6 MiB on an 8 MiB stack (fs/exec.c). */
#define FRAME_LIMIT (64u << 20)

static int port = -1;

/* The ports come with their driver, whose probe may still be running. */
static int find_port(char *path, size_t room) {
    const char *directory = "/sys/class/virtio-ports";
    DIR *ports = opendir(directory);
    if (!ports) return -1;
    int found = -1;
    for (struct dirent *entry; found < 0 && (entry = readdir(ports));) {
        if (entry->d_name[0] == '.') continue;
        char file[512];
        snprintf(file, sizeof file, "%s/%s/name", directory, entry->d_name);
        char *name = read_file(file, NULL);
        if (name && strncmp(name, PORT_NAME "\n", sizeof PORT_NAME) == 0) {
            snprintf(path, room, "/dev/%s", entry->d_name);
            found = 0;
        }
        free(name);
    }
    closedir(ports);
    return found;
}

void channel_open(void) {
    char path[300] = "";
    for (int tries = 0; tries < 3000; tries++) {
        if (find_port(path, sizeof path) == 0) {
            port = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
            if (port >= 0) return;
        }
        usleep(10000);
    }
    fail("no virtio-serial port named", PORT_NAME);
}

int channel_fd(void) { return port; }

static struct pollfd wait_for(short events) {
    struct pollfd ready = {.fd = port, .events = events};
    while (poll(&ready, 1, -1) < 0 && errno == EINTR) {}
    /* Nobody at the other end: the host is about to come or to end the machine. */
    if (ready.revents & POLLHUP) usleep(10000);
    return ready;
}

/* Input: bytes of at most one frame beyond the parsed one. */
static unsigned char *input;
static size_t input_held, input_room, input_taken;

bool receive(struct frame *frame) {
    if (input_taken > 0) {
        memmove(input, input + input_taken, input_held - input_taken);
        input_held -= input_taken;
        input_taken = 0;
    }
    for (;;) {
        size_t wanted = 8;
        if (input_held >= 8) {
            uint32_t head[2];
            memcpy(head, input, 8);
            if (head[1] > FRAME_LIMIT) {
                errno = EMSGSIZE;
                fail("the host sent", "a frame of impossible length");
            }
            wanted = 8 + (size_t)head[1];
            if (input_held >= wanted) {
                *frame = (struct frame){head[0], head[1], input + 8};
                input_taken = wanted;
                return true;
            }
        }
        if (input_room < wanted) {
            input = realloc(input, input_room = wanted);
            if (!input) fail("out of memory for", "a frame");
        }
        ssize_t got = read(port, input + input_held, input_room - input_held);
        if (got < 0 && errno == EINTR) continue;
        /* 0: the host's end is closed for now. */
        if (got <= 0) return false;
        input_held += (size_t)got;
    }
}

struct frame receive_blocking(void) {
    struct frame frame;
    while (!receive(&frame)) wait_for(POLLIN);
    unsigned char *copy = malloc(frame.size + 1);
    if (!copy) fail("out of memory for", "a frame");
    memcpy(copy, frame.bytes, frame.size);
    copy[frame.size] = 0;
    frame.bytes = copy;
    return frame;
}

/* Output that the port has not taken yet. */
static unsigned char *output;
static size_t output_start, output_end, output_room;

static void queue(const void *bytes, size_t size) {
    if (size == 0) return;
    if (output_room - output_end < size && output_start > 0) {
        memmove(output, output + output_start, output_end - output_start);
        output_end -= output_start;
        output_start = 0;
    }
    if (output_room - output_end < size) {
        output_room = output_end + size + 65536;
        output = realloc(output, output_room);
        if (!output) fail("out of memory for", "output");
    }
    memcpy(output + output_end, bytes, size);
    output_end += size;
}

void send_some(void) {
    while (output_start < output_end) {
        ssize_t sent = write(port, output + output_start, output_end - output_start);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return;
        output_start += (size_t)sent;
    }
    output_start = output_end = 0;
}

void send_frame(uint32_t kind, const void *bytes, uint32_t size) {
    uint32_t head[2] = {kind, size};
    queue(head, sizeof head);
    queue(bytes, size);
    send_some();
}

void send_number(uint32_t kind, uint32_t value) { send_frame(kind, &value, sizeof value); }

bool send_pending(void) { return output_start < output_end; }

size_t send_queued(void) { return output_end - output_start; }

void send_all(void) {
    while (send_pending()) {
        wait_for(POLLOUT);
        send_some();
    }
}
