"""Tables and the picture of the pairs."""
import hashlib
import os

from cases import ROOT
from machine import MACHINES

# Points of run time; shares of 100.
NEAR, FAR = 3.0, 10.0


def error(pair):
    return 100 * (pair["ratio"] - pair["obtained"])


def inside(pair):
    return pair["low"] <= pair["obtained"] <= pair["high"]


def chosen_on(pair):
    """Whether the model may be chosen on it: a third of the bases, by their names alone."""
    return int(hashlib.sha256(pair["base"].encode()).hexdigest(), 16) % 3 == 0


def objects(pair):
    names = pair["objects"]
    return "all" if not names else ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} more"


def cells(pair):
    return [pair["machine"], f"`{pair['program']}`", objects(pair), pair["repair"].replace("_", " "),
            f"{pair['ratio']:.3f}", f"{pair['low']:.3f} to {pair['high']:.3f}", f"{pair['obtained']:.3f}",
            f"{error(pair):+.1f}", "" if inside(pair) else "outside"]


def line(pair):
    return "  ".join(cells(pair))


def quantile(values, part):
    """Of sorted values, the least that at least `part` of them do not exceed."""
    values = sorted(values)
    return values[max(0, -(-len(values) * part // 100) - 1)]


def figures(pairs):
    off = [abs(error(p)) for p in pairs]
    share = lambda of: f"{100 * sum(of) / len(pairs):.0f} %"
    return [str(len(pairs)), f"{quantile(off, 50):.1f}", f"{quantile(off, 90):.1f}", f"{max(off):.1f}",
            share(o <= NEAR for o in off), share(o <= FAR for o in off), share(inside(p) for p in pairs)]


def best_found(pairs):
    """Of bases with two repairs at least: how often the one predicted to be best, doing nothing included, is the best or
    within NEAR points of it."""
    right = all_bases = 0
    for name in {p["base"] for p in pairs}:
        of = [(p["ratio"], p["obtained"]) for p in pairs if p["base"] == name] + [(1.0, 1.0)]
        if len(of) < 3:
            continue
        all_bases += 1
        right += min(of)[1] <= min(o[1] for o in of) + NEAR / 100
    return right, all_bases


def table(columns, rows):
    return "".join("| " + " | ".join(row) + " |\n" for row in [columns, ["---"] * len(columns), *rows])


COLUMNS = ["pairs", "median", "nine of ten within", "worst", f"within {NEAR:.0f}", f"within {FAR:.0f}", "in its range"]


def summary(pairs):
    rows = [["all", *figures(pairs)]]
    for what, of in (("the third to choose on", [p for p in pairs if chosen_on(p)]), ("the rest", [p for p in pairs if not chosen_on(p)])):
        if of:
            rows.append([what, *figures(of)])
    for key, names in (("machine", MACHINES), ("repair", sorted({p["repair"] for p in pairs}))):
        for name in names:
            of = [p for p in pairs if p[key] == name]
            if of:
                rows.append([name.replace("_", " "), *figures(of)])
    right, of = best_found(pairs)
    return (table(["errors in points of run time", *COLUMNS], rows)
            + f"\nThe repair predicted to be best is the best obtained, or within {NEAR:.0f} points of it, in {right} of {of} programs.\n")


def repeated(ratios):
    """How far two recordings of one unchanged program are apart: no prediction can be nearer than that."""
    if not ratios:
        return ""
    off = [100 * abs(r - 1) for r in ratios]
    return (f"The same program recorded a second time, unchanged, in {len(off)} cases: {quantile(off, 50):.1f} points apart in the "
            f"median, {quantile(off, 90):.1f} in nine of ten, {max(off):.1f} at most.\n")


def into_docs(pairs, text, repeats):
    """Replaces the tables of docs/predictions.md between their marks, and the picture."""
    path = os.path.join(ROOT, "docs/predictions.md")
    with open(path) as file:
        page = file.read()
    columns = ["machine", "program", "objects", "repair", "predicted", "range", "obtained", "off, points", ""]
    for mark, new in (("summary", text + "\n" + repeats), ("pairs", table(columns, [cells(p) for p in pairs]))):
        begin = f"<!-- benches/predictions/run --docs: {mark} -->\n"
        before, rest = page.split(begin)
        page = before + begin + "\n" + new + "\n" + rest[rest.index("<!-- end -->"):]
    with open(path, "w") as file:
        file.write(page)
