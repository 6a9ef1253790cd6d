"""An array of NumPy that the main thread fills and two threads use by halves.

halves.py ELEMENTS ITERATIONS
"""
import os
import sys
import threading

import nearfar
import numpy as np

n, iterations = int(sys.argv[1]), int(sys.argv[2])
data = np.zeros(n)
data += 1.0  # placed
out = np.zeros(n)
out += 1.0


cpus = sorted(os.sched_getaffinity(0))


def work(part, cpu):
    # Of this thread only.
    os.sched_setaffinity(0, {cpu})
    for _ in range(iterations):
        np.multiply(data[part], 0.5, out=out[part])  # used


# Starting Python takes longer than the work.
nearfar.begin()
half = n // 2
parts = ((slice(0, half), cpus[0]), (slice(half, n), cpus[-1]))
threads = [threading.Thread(target=work, args=part) for part in parts]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
nearfar.end()
print(out[0])
