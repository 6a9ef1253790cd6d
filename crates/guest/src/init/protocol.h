/* What host and guest say to each other over the one virtio-serial port.
 *
 * A frame is a kind (u32), a length (u32) and that many bytes, little endian. One port for
 * all, so that what the program wrote to stdout and stderr keeps its order, and its exit
 * comes after its last byte. Mirrored in guest/channel.rs.
 */
#ifndef NEARFAR_GUEST_PROTOCOL_H
#define NEARFAR_GUEST_PROTOCOL_H

/* Must agree with VERSION in guest/channel.rs. Snapshots of another init are never used:
 * its bytes are part of their key. */
#define NF_GUEST_VERSION 1

enum {
    /* host to guest */
    NF_JOB = 1,      /* fields, see below; once */
    NF_STDIN = 2,    /* bytes, at most as many as credit was given; none: end of file */
    NF_SIGNAL = 3,   /* u32 signal, u32 enum nf_whom */
    NF_CLOSE = 4,    /* u32: nobody reads 1 (stdout) or 2 (stderr) any more */
    NF_WINDOW = 5,   /* u16 rows, u16 columns of the terminal */
    NF_TIME = 6,     /* u64 seconds, u64 nanoseconds of CLOCK_REALTIME, now */
    /* guest to host */
    NF_HELLO = 16,   /* text: what the guest says of itself, name=value lines */
    NF_CLOCK = 17,   /* what time is it? Answered by NF_TIME */
    NF_STARTED = 18, /* the program runs */
    NF_STDOUT = 19,  /* bytes */
    NF_STDERR = 20,  /* bytes */
    NF_CREDIT = 21,  /* u32: so many more bytes of stdin are welcome */
    NF_EXIT = 22,    /* u32: status as wait(2) gives it; the last frame */
    NF_REFUSED = 23, /* u32 errno, then text: what could not be done; the last frame */
};

/* Whom a signal is for. */
enum nf_whom {
    NF_PROCESS = 0, /* the program */
    NF_GROUP = 1,   /* the program's process group, as a terminal does */
    NF_ALL = 2,     /* every process but init */
};

/* A job is a sequence of fields: kind (u32), length (u32), bytes. Numbers are u64. */
enum {
    NF_ARGUMENT = 1,    /* in order */
    NF_VARIABLE = 2,    /* NAME=value */
    NF_DIRECTORY = 3,   /* working directory */
    NF_THP = 4,         /* always, madvise, never */
    NF_BALANCING = 5,   /* 0 or 1 */
    NF_USER = 6,        /* uid, gid, then supplementary groups */
    NF_UMASK = 7,
    NF_LIMIT = 8,       /* resource, soft, hard */
    NF_SEED = 9,        /* bytes for the random number generator */
    NF_HOSTNAME = 10,
    NF_TERMINAL = 11,   /* bits 0..2: descriptors that are a terminal; rows; columns */
    NF_FIRST_PID = 12,  /* process ids are given from here on */
    NF_ONE_OUTPUT = 13, /* 1: stdout and stderr are the same file on the host, so also here:
                         * only then does anybody see the order of what is written to both */
    NF_WRITABLE = 14,   /* the one directory of the host that can be written to; without: all */
};

#endif
