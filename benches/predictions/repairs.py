"""What a report predicts, and how to do it: the repairs that somebody can apply without knowing what they gave.

Of each base: all memory in turns over the nodes with cpus; its source repaired; what `nearfar fix` writes; the two objects
(or groups that one cause placed) that move most lines, each in turns over the nodes, on a node or where it is used, if
they are not all there is; and all of it on one node, if its threads fit there.
"""
from machine import MACHINES

OBJECTS = 2


class Repair:
    """One pair's how: a name, the objects, what was predicted, and the run that shows what is obtained."""

    def __init__(self, kind, objects, predicted, policy=None, words=None, placement=None):
        self.kind, self.objects, self.predicted = kind, objects, predicted
        # None: as the base's.
        self.policy, self.words, self.placement = policy, words, placement

    @property
    def name(self):
        return "-".join([self.kind, *(o.replace("/", ".").replace(" ", "") for o in self.objects)])[:80]


def parts_of(report):
    """By object, by what a placement file can name it."""
    found = {}
    combinations = [report["what_if"][c] for c in ("best", "placeable") if report["what_if"][c]]
    for part in [p for c in combinations for p in c["parts"]] + [p for f in report["findings"] for p in f["repairs"]]:
        if part["not_placeable"] is None:
            found.setdefault(part["object"], part)
    lines = [o["allocated_at"] for o in report["objects"]]
    for o in report["objects"]:
        at = o["allocated_at"]
        if at and o["kind"] == "heap" and lines.count(at) == 1:
            found.setdefault(o["name"], {"allocated_at": at, "variable": None})
    return found


def section(name, part, body):
    where = f'static = "{part["variable"]}"' if part["variable"] else f'allocated_at = "{part["allocated_at"]}"'
    return f'[[object]]\nname = "{name}"\n{where}\n{body}\n'


def of_objects(names, parts, body):
    """A placement file that does the same with some objects; None if it cannot name all of them, or only with others."""
    address = lambda name: (parts[name]["allocated_at"], parts[name]["variable"])
    if any(name not in parts for name in names):
        return None
    own = {address(name) for name in names}
    if any(address(name) in own for name in parts if name not in names):
        return None
    chosen, seen = "format = 1\n\n", set()
    for name in names:
        if address(name) not in seen:
            chosen += section(name, parts[name], body)
        seen.add(address(name))
    return chosen


def sections(written, names):
    """What `fix` wrote of these objects alone, without what it wrote of others."""
    head, *objects = written.split("[[object]]\n")
    own = ["[[object]]\n" + o for o in objects if any(f'name = "{name}"\n' in o for name in names)]
    # The comment behind an object is the next one's.
    return "format = 1\n\n" + "\n".join(o.split("\n#")[0] for o in own)


def repairs(base, report, written):
    """All of a base. `written`: the placement file of `nearfar fix`, or None."""
    what_if = report["what_if"]
    _, nodes, cpus = MACHINES[base.machine]
    offered = lambda objects, kind: next((r for r in what_if["repairs"] if r["objects"] == objects and r["repair"]["kind"] == kind), None)
    turns = f"0-{nodes - 1}"
    out = [Repair("interleave", [], offered([], "interleave")["predicted"], policy=("numactl", f"--interleave={turns}"))]
    if base.repaired:
        words, kind = base.repaired
        of_kind = [r for r in what_if["repairs"] if r["repair"]["kind"] == kind]
        # What is about single objects is what the source's repair is about; else it is about all of them.
        row = min(of_kind, key=lambda r: (bool(r["objects"]) == (kind == "where_used"), r["predicted"]["ratio"]), default=None)
        if row:
            out.append(Repair(f"source: {kind}".replace(": ", "-"), row["objects"], row["predicted"], policy=(), words=words))
    placeable = what_if["placeable"]
    if written and placeable:
        out.append(Repair("fix", [p["object"] for p in placeable["parts"]], placeable["predicted"], placement=written))
    parts = parts_of(report)
    rank = {o["name"]: i for i, o in reversed(list(enumerate(report["objects"])))}
    units = {tuple(r["objects"]) for r in what_if["repairs"] if r["objects"] and r["repair"]["kind"] == "interleave"}
    units = sorted(units, key=lambda u: min(rank.get(name, len(rank)) for name in u))
    used = {p["object"] for p in placeable["parts"] if p["repair"]["kind"] == "where_used"} if placeable else set()
    for unit in units[:OBJECTS]:
        for r in (r for r in what_if["repairs"] if tuple(r["objects"]) == unit):
            kind, placement = r["repair"]["kind"], None
            if kind == "interleave" and len(units) > 1:
                placement = of_objects(unit, parts, f'policy = "interleave"\nnodes = "{turns}"')
            elif kind == "bind":
                placement = of_objects(unit, parts, f'policy = "bind"\nnodes = "{r["repair"]["node"]}"')
            elif kind == "where_used" and written and set(unit) <= used and len(placeable["parts"]) > len(unit):
                placement = sections(written, unit)
            if placement:
                out.append(Repair(kind, list(unit), r["predicted"], placement=placement))
    one = what_if["one_node"]
    if one:
        node = one["node"]
        out.append(Repair("one-node", [], one["predicted"], policy=("numactl", f"--physcpubind={node * cpus}-{node * cpus + cpus - 1}", f"--membind={node}")))
    return out
