"""Debian's programs, as their packages come: how to run each at a size, and what is known of it by other means.

A size is a factor of the work: 1 takes a few seconds here, and what is counted on the virtual machine takes a fiftieth.
"""
import os
import random
import shutil
import subprocess

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

# Two rounds of transforms of a plane, by both threads.
FOURIER = """
import numpy as np, scipy.fft as f
a = np.random.rand({n}, {n})
for i in range({times}): b = f.ifft2(f.fft2(a, workers=2), workers=2)
print(abs(b - a).max() < 1e-9)
"""
SPARSE = """
import numpy as np, scipy.sparse as s
r = np.random.default_rng(1)
m = s.csr_matrix((r.random(20 * {n}), r.integers(0, {n}, 20 * {n}), 20 * np.arange({n} + 1)), shape=({n}, {n}))
v = np.ones({n})
for i in range({times}): w = m @ v
print(w.sum() > 0)
"""
OCTAVE = "a = rand({n}); for i = 1:{times} b = a * a'; c = sum(b(:)); end; disp(c > 0)"
R = "x <- runif({n}); for (i in 1:3) y <- sort(x); d <- split(x, floor(x * 1000)); cat(length(d) > 0, '\\n')"
JAVA = """
import java.util.stream.*;
public class Sorting {{
    public static void main(String[] words) {{
        long[] a = LongStream.range(0, {n}).map(i -> i * 2654435761L % 1000003).toArray();
        for (int i = 0; i < {times}; i++) java.util.Arrays.parallelSort(a.clone());
        System.out.println(IntStream.range(0, {n}).parallel().mapToLong(i -> a[i] * i).sum());
    }}
}}
"""
GO = """
package main
import ("fmt"; "sort"; "sync")
func main() {{
	var wait sync.WaitGroup
	seen := make([]map[int]int, 2)
	all := make([]int, {n})
	for i := range all {{ all[i] = i * 7919 % {n} }}
	for t := 0; t < 2; t++ {{
		wait.Add(1)
		go func(t int) {{
			defer wait.Done()
			part := all[t*{n}/2 : (t+1)*{n}/2]
			sort.Ints(part)
			seen[t] = map[int]int{{}}
			for i, x := range part {{ seen[t][x] = i }}
		}}(t)
	}}
	wait.Wait()
	fmt.Println(len(seen[0]) + len(seen[1]))
}}
"""
# Atoms that attract and repel each other, on a lattice that melts.
LAMMPS = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {n} 0 {n} 0 {n}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
run {times}
"""
SCENE = """
camera {{ location <0, 2, -6> look_at 0 }}
light_source {{ <9, 9, -9> rgb 1 }}
plane {{ y, -1 pigment {{ checker rgb 1, rgb 0.2 }} }}
#declare I = 0;
#while (I < 200) sphere {{ <mod(I, 20) / 4 - 2.4, floor(I / 20) / 4 - 1, 0>, 0.1 pigment {{ rgb <I / 200, 0.5, 1> }}
  finish {{ reflection 0.3 }} }} #declare I = I + 1; #end
"""
# Where the server's socket is, a folder in memory; the words behind the script are what it needs.
REDIS = """
at=$(mktemp -d -p /dev/shm); trap 'rm -rf "$at"' EXIT
redis-server --port 0 --unixsocket "$at/socket" --save "" --io-threads 2 --dir "$at" >"$at/log" &
for i in $(seq 600); do [ -S "$at/socket" ] && break; sleep 0.1; done
redis-benchmark -s "$at/socket" -q -n {n} -r 500000 -d 256 -t set,get,lpush -P 16 >"$at/out"
redis-cli -s "$at/socket" shutdown nosave
wait
"""
MEMCACHED = """
at=$(mktemp -d -p /dev/shm); trap 'kill $server; rm -rf "$at"' EXIT
memcached -u root -t 2 -m 256 -s "$at/socket" & server=$!
for i in $(seq 600); do [ -S "$at/socket" ] && break; sleep 0.1; done
/usr/bin/python3 - "$at/socket" <<'END'
import socket, sys, threading
def load(begin):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(sys.argv[1])
    answers = peer.makefile("rb")
    for i in range(begin, begin + {n}, 100):
        keys = [(j * 7919) % 300000 for j in range(i, i + 100)]
        peer.sendall(b"".join(b"set k%d 0 0 512\\r\\n%s\\r\\n" % (k, b"v" * 512) for k in keys))
        for k in keys: answers.readline()
        peer.sendall(b"".join(b"get k%d\\r\\n" % k for k in keys))
        left = len(keys)
        while left: left -= answers.readline() == b"END\\r\\n"
both = [threading.Thread(target=load, args=(at * {n},)) for at in range(2)]
[t.start() for t in both]
[t.join() for t in both]
END
"""


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


def genome(folder, letters):
    """A sequence of letters by chance, in FASTA."""
    path = os.path.join(folder, f"genome-{letters}.fa")
    if not os.path.exists(path):
        with open(path, "w") as out:
            out.write(">one\n" + "".join(random.Random(4).choices("ACGT", k=letters)) + "\n")
    return path


def reads(folder, letters, count, length):
    """So many pieces of that genome, one letter in fifty wrong."""
    path = os.path.join(folder, f"reads-{letters}-{count}-{length}.fa")
    if not os.path.exists(path):
        with open(genome(folder, letters)) as file:
            whole = file.read().split("\n")[1]
        chance = random.Random(5)
        with open(path, "w") as out:
            for i in range(count):
                at = chance.randrange(letters - length)
                piece = list(whole[at:at + length])
                for _ in range(length // 50):
                    piece[chance.randrange(length)] = chance.choice("ACGT")
                out.write(f">r{i}\n{''.join(piece)}\n")
    return path


def bwa(folder, size):
    """Short reads, against a genome of 4 million letters."""
    whole = genome(folder, 4_000_000)
    if not os.path.exists(whole + ".bwt"):
        subprocess.run(["bwa", "index", whole], check=True, stderr=subprocess.DEVNULL)
    return ["bwa", "mem", "-v", "1", "-t", "2", "-o", "/dev/null", whole, reads(folder, 4_000_000, max(500, int(60000 * size)), 100)]


def alignment(folder, size):
    """A table of short reads in SAM, one million at size 1."""
    path = os.path.join(folder, f"table-{size}.sam")
    if not os.path.exists(path):
        chance = random.Random(6)
        with open(path, "w") as out:
            out.write("@SQ\tSN:one\tLN:4000000\n")
            for i in range(max(1000, int(1e6 * size))):
                out.write(f"r{i}\t0\tone\t{chance.randrange(1, 3999000)}\t60\t50M\t*\t0\t0\t{'ACGTA' * 10}\t{'I' * 50}\n")
    return path


def proteins(folder, size):
    """Related sequences: copies of one, with a tenth of the letters changed."""
    count = max(8, int(150 * size))
    path = os.path.join(folder, f"proteins-{count}.fa")
    if not os.path.exists(path):
        chance = random.Random(7)
        first = chance.choices("ACDEFGHIKLMNPQRSTVWY", k=400)
        with open(path, "w") as out:
            for i in range(count):
                copy = [chance.choice("ACDEFGHIKLMNPQRSTVWY") if chance.random() < 0.1 else c for c in first]
                out.write(f">p{i}\n{''.join(copy)}\n")
    return path


def in_go(folder, size):
    """The program, compiled."""
    source = script(folder, "maps", GO, n=int(12e6 * size))
    if not os.path.exists(source + ".out"):
        shutil.copy(source, source + ".go")
        there = dict(os.environ, GOCACHE=os.path.join(folder, "go"), GO111MODULE="off")
        subprocess.run(["go", "build", "-o", source + ".out", source + ".go"], check=True, env=there)
    return [source + ".out"]


def in_java(folder, size):
    """The class, compiled. Counted is as much as is recorded: a fiftieth of it is the start, in which both workers count in the same
    lines how often each place runs. That takes most of the time there, as without nearfar: where code goes on counting
    (-XX:TieredStopAtLevel=3), two threads sort in 2.0 s what one sorts in 0.32 s."""
    size = max(size, 1)
    there = os.path.join(folder, f"java-{size}")
    if not os.path.exists(there):
        os.mkdir(there)
        with open(os.path.join(there, "Sorting.java"), "w") as out:
            out.write(JAVA.format(n=max(100_000, int(8e6 * size)), times=4))
        subprocess.run(["javac", "-d", there, os.path.join(there, "Sorting.java")], check=True)
    return ["java", "-XX:ActiveProcessorCount=2", "-XX:+PreserveFramePointer", "-Xmx600m", "-cp", there, "Sorting"]


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
    ("7z", "p7zip-full", "private dictionaries",
     lambda d, s: ["7z", "a", "-bd", "-mmt2", "-mx1", "-txz", "-so", "x", text(d, s)]),
    ("bwa", "bwa", "one index, by random access", bwa),
    ("minimap2", "minimap2", "one index, by random access",
     lambda d, s: ["minimap2", "-t2", "-x", "map-ont", "-o", "/dev/null", genome(d, 4_000_000),
                   reads(d, 4_000_000, max(50, int(6000 * s)), 3000)]),
    ("samtools", "samtools", "one thread reads, two sort",
     lambda d, s: ["samtools", "sort", "-@2", "-o", "/dev/null", alignment(d, s)]),
    ("clustalo", "clustalo", "small matrices",
     lambda d, s: ["clustalo", "--threads=2", "-i", proteins(d, s), "-o", os.path.join(d, "aligned"), "--force"]),
    ("lammps", "lammps openmpi-bin", "two processes, each with its own atoms",
     lambda d, s: ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2", "lmp", "-log", "none", "-in",
                   script(d, "melt", LAMMPS, n=max(8, int(24 * s ** (1 / 3))), times=max(4, int(60 * s ** 0.5)))]),
    ("scipy-fft", "python3-scipy", "both threads go through a plane by rows, and by columns",
     lambda d, s: [PYTHON, script(d, "fourier", FOURIER, n=int(3000 * max(s, 0.02) ** 0.5), times=2)]),
    ("scipy-sparse", "python3-scipy", "one thread",
     lambda d, s: [PYTHON, script(d, "sparse", SPARSE, n=int(500000 * max(s, 0.02)), times=40)]),
    ("octave", "octave", "blocked for the caches",
     lambda d, s: ["octave-cli", "--no-gui", "--eval", OCTAVE.format(n=max(200, int(2200 * s ** (1 / 3))), times=4)]),
    ("r", "r-base-core", "one thread", lambda d, s: ["Rscript", "-e", R.format(n=int(8e6 * s))]),
    ("java", "openjdk-17-jdk-headless", "one thread sorts, two add", in_java),
    ("go", "golang-go", "each thread sorts its half, which one has filled", in_go),
    ("ffmpeg", "ffmpeg", "pictures that threads take in turn",
     lambda d, s: ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-s", "640x360", "-stream_loop", "9", "-i", video(d, s), "-threads", "2", "-c:v",
                   "mpeg4", "-q:v", "3", "-f", "null", "-"]),
    ("povray", "povray", "a small scene",
     lambda d, s: ["povray", "+I" + script(d, "scene", SCENE, n=0), "+WT2", f"+W{int(2000 * s ** 0.5)}", f"+H{int(1500 * s ** 0.5)}",
                   "-D", "-GA", "+O" + os.path.join(d, "scene.png")]),
    ("likwid", "likwid", "one thread places three streams, two use them",
     lambda d, s: ["likwid-bench", "-t", "triad", "-w", "N:100MB:2", "-i", str(max(24, int(60 * s)))]),
    ("plzip", "plzip", "private dictionaries", lambda d, s: ["plzip", "-n2", "-k", "-c", text(d, s / 3)]),
    ("zpaq", "zpaq", "private models", lambda d, s: ["zpaq", "add", os.path.join(d, f"{s}.zpaq"), text(d, s / 2), "-m2", "-t2", "-f"]),
    ("hmmer", "hmmer", "two read one sequence after the other",
     lambda d, s: ["phmmer", "--cpu", "2", "-o", "/dev/null", proteins(d, s / 3), proteins(d, 10 * s)]),
    ("sysbench", "sysbench", "both threads write one block",
     lambda d, s: ["sysbench", "memory", "--threads=2", "--memory-block-size=32M", "--memory-oper=write", "--time=0",
                   f"--memory-total-size={max(1, int(40 * s))}G", "run"]),
    ("redis", "redis-server redis-tools", "one thread serves, two read the sockets",
     lambda d, s: ["sh", "-e", script(d, "redis", REDIS, n=max(2000, int(400000 * s))), "redis-server", "redis-benchmark", "redis-cli"]),
    ("memcached", "memcached", "random access of both threads to all",
     lambda d, s: ["sh", "-e", script(d, "memcached", MEMCACHED, n=max(2000, int(300000 * s))), "memcached"]),
]


def missing(of_size, folder):
    """Whether something that makes or runs a small command is not here. What a script runs are the words behind it."""
    try:
        command = of_size(folder, 0.02)
    except FileNotFoundError:
        # What compiles the program, or makes its index.
        return True
    names = command[3:] if command[0] == "sh" else command[:1]
    if "-np" in command:
        names = [*names, command[command.index("-np") + 2]]
    if any(shutil.which(name) is None for name in names):
        return True
    if command[0] != PYTHON:
        return False
    # A script's package is what it imports first.
    with open(command[1]) as file:
        imports = next((line for line in file if line.startswith("import ")), "pass")
    return subprocess.run([PYTHON, "-c", imports], stderr=subprocess.DEVNULL).returncode != 0
