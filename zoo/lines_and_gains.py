"""Lines and gains told from samples of a clock, beside counted ones: `zoo/run --lines`.

Both are of the marked region, of kernels that one thread initialised. What a counted run has at its begin (dirty lines of the
initialisation in the caches) is in every run once, so lines of a repetition are the difference of two counted runs over
the difference of their repetitions.
"""

# KiB of data, and the repetitions of two counted runs of that size. They are seconds of emulation each.
SIZES = [(131072, 2, 6), (262144, 1, 3)]


def of_object(report, name):
    """Lines that were counted for an object."""
    return sum(o["dram"]["local"] + o["dram"]["remote"] for o in report["objects"] if o["name"] == name and o["dram"])


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float("nan")


class Sum:
    """How many ranges hold, and how far likely values are off."""

    def __init__(self):
        self.off, self.lines, self.gains, self.likely, self.widths = [], [], [], [], []

    def case(self, native, few, more):
        """The rows of a kernel: what is told, from samples with its range, counted, whether the range holds."""
        # What the programs were told: a kept recording has its own.
        repetitions, least, most = (int(r["command"][-1]) for r in (native, few, more))
        rows = []
        for thing in native["objects"]:
            told = thing["estimated_lines"]
            if told is None:
                continue
            counted = (of_object(more, thing["name"]) - of_object(few, thing["name"])) / (most - least) * repetitions
            holds = told["low"] <= counted <= told["high"]
            self.lines.append(holds)
            self.off.append(abs(told["lines"] / counted - 1) if counted else 1.0)
            low, likely, high = (f"{told[k] / 1e6:.1f}" for k in ("low", "lines", "high"))
            rows.append([f"{thing['name']}: million lines", f"{likely} ({low}–{high})", f"{counted / 1e6:.1f}", "yes" if holds else "no"])
        told = (native["sampled_gain"] or {}).get("every_line_local")
        counted = (more["what_if"] or {}).get("all_local")
        if told and counted:
            holds = told["low"] <= counted["ratio"] <= told["high"]
            self.gains.append(holds)
            self.likely.append(abs(told["ratio"] - counted["ratio"]) <= 0.10)
            self.widths.append(told["high"] - told["low"])
            low, likely, high = (f"{told[k]:.2f}" for k in ("low", "ratio", "high"))
            rows.append(["part of the time, every line near", f"{likely} ({low}–{high})", f"{counted['ratio']:.2f}", "yes" if holds else "no"])
        return rows

    def hold(self):
        """Whether nine of ten ranges hold, of lines and of gains."""
        return all(sum(ranges) >= 0.9 * len(ranges) for ranges in (self.lines, self.gains))

    def text(self):
        return (f"Of {len(self.lines)} numbers of lines, {sum(self.lines)} have the counted one in their range; the median difference is "
                f"{100 * median(self.off):.0f} %. Of {len(self.gains)} times with every line near, {sum(self.gains)} have what counts predict in "
                f"their range, which is {100 * median(self.widths):.0f} points wide in the median; {sum(self.likely)} of the likely values are "
                "within 10 points.")
