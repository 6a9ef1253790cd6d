"""An array of NumPy that the main thread fills and two threads use by halves.

halves.py ELEMENTS ITERATIONS
"""
import sys
import threading

import nearfar
import numpy as np

n, iterations = int(sys.argv[1]), int(sys.argv[2])
data = np.zeros(n)
data += 1.0  # placed
out = np.zeros(n)
out += 1.0


def work(part):
    for _ in range(iterations):
        np.multiply(data[part], 0.5, out=out[part])  # used


# Starting Python takes longer than the work.
nearfar.begin()
half = n // 2
threads = [threading.Thread(target=work, args=(part,)) for part in (slice(0, half), slice(half, n))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
nearfar.end()
print(out[0])
