"""Which programs are run, and on which machine. What is tried on each, repairs.py finds in its report."""
import importlib.machinery
import importlib.util
import os

from machine import MACHINES

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def beside(name):
    """Another bench of this directory. Its name has no ending that Python knows."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, "benches/predictions", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Base:
    """A program on a machine.

    `repaired`: the words of the same program with its source repaired, and which repair of the report that is: its kind. It
    is run without `policy`, which is what stands before the program. `threads`: None for one on each cpu; `spread`: over
    all nodes.
    """

    def __init__(self, machine, program, words, repaired=None, policy=(), threads=None, spread=False):
        self.machine, self.program, self.words, self.policy = machine, program, words, policy
        self.repaired, self.threads, self.spread = repaired, threads, spread

    @property
    def name(self):
        """Names its recording: letters that any file system has."""
        parts = [self.machine, *(w.lstrip("-") for w in self.policy), self.program, *self.words]
        if self.threads:
            parts.append(f"{self.threads}threads")
        return "_".join(parts).replace("/", ".").replace("=", "").replace("--", "").replace(",", ".")

    @property
    def shown(self):
        """As a person types it, without where it is."""
        team = f"OMP_NUM_THREADS={self.threads} " if self.threads else ""
        return team + " ".join([*self.policy, self.program, *self.words])

    def environment(self):
        _, nodes, cpus = MACHINES[self.machine]
        binding = "spread" if self.spread else "close"
        return {"OMP_NUM_THREADS": str(self.threads or nodes * cpus), "OMP_PROC_BIND": binding, "OMP_PLACES": "cores",
                "OMP_WAIT_POLICY": "passive"}


def kernel(machine, name, kib, repetitions, near=True, form="serial", **more):
    """One of zoo/kernels.c. `near`: whether its parallel form places each page where it is used."""
    words = [name, form, str(kib), str(repetitions)]
    wrong = form == "serial" or "policy" in more
    repaired = ([name, "parallel", *words[2:]], "where_used") if near and wrong else None
    return Base(machine, "kernels", words, repaired, **more)


def workload(machine, line, defect="", repaired="", kind="where_used", **more):
    """One of workloads/: its defect's words, those of the repair, and what that is."""
    program, *words = line.split()
    other = (words + repaired.split(), kind) if repaired else None
    return Base(machine, program, words + defect.split(), other, **more)


def serial(machine, line, to="parallel", **more):
    return workload(machine, line, "--init serial", f"--init {to}", **more)


def all_bases():
    far = ("numactl", "--membind=2")
    spread_over = ("numactl", "--interleave=all")
    return [
        # Two nodes of four cpus.
        kernel("2x4", "triad", 12288, 4),
        kernel("2x4", "triad", 4096, 8),
        kernel("2x4", "triad", 12288, 4, form="parallel"),
        kernel("2x4", "jacobi", 12288, 2),
        kernel("2x4", "spmv", 12288, 2),
        kernel("2x4", "bfs", 8192, 2, near=False),
        kernel("2x4", "join", 16384, 4, near=False),
        kernel("2x4", "transpose", 12288, 3, near=False),
        kernel("2x4", "fft", 12288, 3, near=False),
        kernel("2x4", "nbody", 6144, 1, near=False),
        kernel("2x4", "triad", 12288, 4, threads=4, spread=True),
        kernel("2x4", "table", 12288, 400, near=False, threads=4, spread=True),
        workload("2x4", "openmp --example 2 --elements 500000 --iterations 6", repaired="--repaired"),
        workload("2x4", "openmp --example 3 --elements 2000000 --iterations 3", repaired="--repaired", kind="same_schedule"),
        workload("2x4", "openmp --example 4 --elements 1000000 --iterations 6", repaired="--repaired"),
        workload("2x4", "table --kind read-only --lookups 60000", repaired="--repaired", kind="replicate"),
        workload("2x4", "arenas --kb 2048 --iterations 4", repaired="--repaired"),
        serial("2x4", "iso3dfd 120 124 96 4 120 16 12", to="first-touch"),
        # Four nodes of two cpus.
        kernel("4x2", "triad", 12288, 4),
        kernel("4x2", "aos", 12288, 2),
        kernel("4x2", "rows", 24576, 3),
        kernel("4x2", "trisolve", 12288, 2, near=False),
        kernel("4x2", "table", 12288, 400, near=False),
        kernel("4x2", "sort", 8192, 4),
        kernel("4x2", "spmv", 6144, 3),
        kernel("4x2", "jacobi", 3072, 4, form="parallel"),
        kernel("4x2", "triad", 12288, 4, form="parallel", policy=spread_over),
        serial("4x2", "chase --bytes 1048576 --steps 40000"),
        serial("4x2", "stream-kernels --kernel copy --elements 600000 --iterations 5"),
        workload("4x2", "rows --rows 4000 --iterations 6", repaired="--repaired"),
        workload("4x2", "openmp --example 1 --elements 500000 --iterations 6", repaired="--repaired"),
        workload("4x2", "table --kind read-write --lookups 60000", repaired="--repaired", kind="interleave"),
        # Eight nodes of one cpu.
        kernel("8x1", "triad", 12288, 4),
        kernel("8x1", "jacobi", 12288, 2),
        kernel("8x1", "spmv", 12288, 2),
        kernel("8x1", "bfs", 8192, 2, near=False),
        kernel("8x1", "shared", 12288, 300, near=False),
        kernel("8x1", "fft", 6144, 3, near=False),
        kernel("8x1", "triad", 12288, 4, form="parallel"),
        serial("8x1", "stream-kernels --kernel triad --elements 500000 --iterations 5 --regular"),
        workload("8x1", "openmp --example 4 --elements 1000000 --iterations 6", repaired="--repaired"),
        workload("8x1", "table --kind read-only --lookups 60000", repaired="--repaired", kind="replicate"),
        workload("8x1", "matrix --rows 1000 --cols 1000 --order rows --passes 3", "--init serial", "--init parallel"),
        # Two nodes of two cpus, and memory without cpus. Bound there, or first touched by one thread.
        kernel("2x2+cxl", "triad", 12288, 4, policy=far),
        kernel("2x2+cxl", "jacobi", 12288, 2, policy=far),
        kernel("2x2+cxl", "spmv", 12288, 2, policy=far),
        kernel("2x2+cxl", "bfs", 8192, 2, near=False, policy=far),
        kernel("2x2+cxl", "table", 12288, 400, near=False, policy=far),
        kernel("2x2+cxl", "join", 16384, 4, near=False, policy=spread_over),
        kernel("2x2+cxl", "sort", 8192, 4, policy=spread_over),
        kernel("2x2+cxl", "triad", 12288, 4),
        kernel("2x2+cxl", "aos", 12288, 2),
        kernel("2x2+cxl", "transpose", 12288, 3, near=False),
        serial("2x2+cxl", "chase --bytes 2097152 --steps 60000", policy=far),
        serial("2x2+cxl", "iso3dfd 120 124 64 4 120 16 12", to="first-touch", policy=far),
    ]
