# SPDX-License-Identifier: MIT OR Apache-2.0
"""Phases from Python: PYTHONPATH=../../python nearfar record -- python3 solve.py"""

import nearfar


@nearfar.phase("initialise")
def initialise(n):
    return [1.0 / (i + 1) for i in range(n)]


def solve(x, steps):
    with nearfar.phase("solve"):
        for step in range(1, steps + 1):
            with nearfar.phase(f"step {step}"):
                x = [(a + b) / 2 for a, b in zip(x, x[1:] + x[:1])]
                nearfar.metric("residual", sum(x))
    return x


x = solve(initialise(20000), 4)
try:
    with nearfar.phase("fails"):
        raise ValueError
except ValueError:
    pass
print("verify: ok", sum(x) > 0)
