"""Debian's programs, as their packages come: how to run each at a size, and what is known of it by other means.

A size is a factor of the work: 1 takes a few seconds here, and what is counted on the virtual machine takes a fiftieth.
"""
import os
import random

# Two threads, where a program does not take the number of cpus anyway.
TWO = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "GOMAXPROCS": "2"}

MATRIX = """
import numpy as np
n = {n}
a = np.random.rand(n, n); b = np.random.rand(n, n)
for i in range({times}): c = a @ b
print(c[0, 0] > 0)
"""
VECTOR = """
import numpy as np
a = np.random.rand({n})
for i in range({times}): b = a * 2.0 + 1.0; s = b.sum()
print(s > 0)
"""
SORT = """
import random
d = {{i: random.random() for i in range({n})}}
print(len(sorted(d.items(), key=lambda x: x[1])))
"""
SQL = ("create table t(a int, b text); with recursive c(x) as (select 1 union all select x + 1 from c where x < {n}) "
       "insert into t select x, hex(x) from c; create index i on t(b); select count(*) from t where b like '%5%';")
JS = "const m = new Map(); for (let i = 0; i < {n}; i++) m.set('k' + (i * 7919 % {n}), i); console.log(m.size)"


def text(folder, size):
    """A file of words, of 64 MB at size 1."""
    path = os.path.join(folder, f"text-{size}")
    if not os.path.exists(path):
        chance = random.Random(1)
        words = ["".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(chance.randint(2, 9)))
                 for _ in range(20000)]
        with open(path, "w") as out:
            left = int(64e6 * size)
            while left > 0:
                line = " ".join(chance.choices(words, k=12)) + "\n"
                left -= out.write(line)
    return path


def script(folder, name, source, **values):
    path = os.path.join(folder, name + "-" + "-".join(map(str, values.values())))
    with open(path, "w") as out:
        out.write(source.format(**values))
    return path


def video(folder, size):
    """Grey noise that moves, 640x360: 120 pictures at size 1."""
    path = os.path.join(folder, f"video-{size}.yuv")
    if not os.path.exists(path):
        chance = random.Random(2)
        noise = bytes(chance.randrange(256) for _ in range(640 * 400))
        with open(path, "wb") as out:
            for at in range(max(2, int(120 * size))):
                out.write(noise[640 * (at % 40):][:640 * 360] + b"\x80" * (640 * 180))
    return path


def picture(folder, size):
    """Coloured noise in PPM, 3000x3000 at size 1."""
    side = max(64, int(3000 * size ** 0.5))
    path = os.path.join(folder, f"picture-{side}.ppm")
    if not os.path.exists(path):
        with open(path, "wb") as out:
            out.write(b"P6 %d %d 255\n" % (side, side) + random.Random(3).randbytes(3 * side * side))
    return path


PYTHON = "/usr/bin/python3"
# Name, package, program, what is known by other means, and its command for a folder and a size.
PROGRAMS = [
    ("pigz", "pigz", "private buffers of 128 KiB", lambda d, s: ["pigz", "-p2", "-k", "-c", text(d, s)]),
    ("pbzip2", "pbzip2", "private blocks of 900 KB", lambda d, s: ["pbzip2", "-p2", "-k", "-c", text(d, s)]),
    ("xz", "xz-utils", "private dictionaries", lambda d, s: ["xz", "-T2", "-1", "-k", "-c", text(d, s)]),
    ("zstd", "zstd", "one thread reads the input, others compress it",
     lambda d, s: ["zstd", "-T2", "-5", "-q", "-c", text(d, 2 * s)]),
    # It sorts fewer than 131,072 lines in one thread.
    ("sort", "coreutils", "one thread reads, two sort",
     lambda d, s: ["sort", "--parallel=2", "-S", "1G", text(d, max(s / 2, 0.25))]),
    ("gm", "graphicsmagick", "arithmetic", lambda d, s: ["gm", "convert", picture(d, s), "-blur", "0x4", "/dev/null"]),
    ("x264", "x264", "pictures that each thread takes in turn",
     lambda d, s: ["x264", "--quiet", "--threads", "2", "--input-res", "640x360", "-o", "/dev/null", video(d, s)]),
    ("numpy-matrix", "python3-numpy libopenblas0-pthread", "blocked for the caches",
     lambda d, s: [PYTHON, script(d, "matrix", MATRIX, n=max(100, int(2500 * s ** (1 / 3))), times=4)]),
    ("numpy-vector", "python3-numpy", "one thread",
     lambda d, s: [PYTHON, script(d, "vector", VECTOR, n=int(2e7 * s), times=20)]),
    ("python-sort", "python3", "one thread", lambda d, s: [PYTHON, script(d, "sort", SORT, n=int(2e6 * s))]),
    ("sqlite", "sqlite3", "one thread", lambda d, s: ["sqlite3", ":memory:", SQL.format(n=int(3e6 * s))]),
    ("node", "nodejs", "one thread, and helpers that collect", lambda d, s: ["node", "-e", JS.format(n=int(2e6 * s))]),
    ("stress-vm", "stress-ng", "private memory of each process",
     lambda d, s: ["stress-ng", "-q", "--vm", "2", "--vm-bytes", "200M", "--vm-ops", str(max(2, int(20000 * s)))]),
    ("stress-matrix", "stress-ng", "private matrices of 512 KiB",
     lambda d, s: ["stress-ng", "-q", "--matrix", "2", "--matrix-ops", str(max(2, int(4000 * s)))]),
    ("stress-qsort", "stress-ng", "private arrays of 1 MiB",
     lambda d, s: ["stress-ng", "-q", "--qsort", "2", "--qsort-ops", str(max(2, int(60 * s)))]),
]
