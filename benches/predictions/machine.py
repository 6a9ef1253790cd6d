"""The four machines of the bench, as machine files.

Their caches are small, so that arrays of a few MiB are much larger than they are and a run takes seconds. Every figure is
called sure ("H"): an emulated machine is what its file says, so what remains of a predicted range is what the prediction
itself does not know. With the confidence that figures of real machines have, nearly any truth would be in the range.
"""
WHY = 'source = "chosen for the bench", confidence = "H"'


def figures(**of):
    return "".join(f"{name} = {{ value = {value}, {WHY} }}\n" for name, value in of.items())


def matrix(table, rows):
    text = lambda cell: '"unknown"' if cell is None else f"{cell:.1f}"
    rows = "".join(f"  [{', '.join(text(cell) for cell in row)}],\n" for row in rows)
    return f'[{table}]\nsource = "chosen for the bench"\nconfidence = "H"\nrows = [\n{rows}]\n\n'


def described(name, nodes, cpus, near, far, l3_kib, memory, link, expander=None):
    """A machine of `nodes` nodes, each with `cpus` cpus, linked each to each.

    `near` and `far`: latencies, ns; `far` by how many packages of four nodes lie between. `memory`: GB/s of a node's memory when it
    is only read; a third and a half of writes take 10 and 15 % of that. `link`: GB/s each way. `expander`: latency and
    GB/s of a node without cpus, at node 0.
    """
    apart = lambda i, j: near if i == j else far[0] if i // 4 == j // 4 else far[-1]
    latencies = [[apart(i, j) for j in range(nodes)] for i in range(nodes)]
    if expander:
        latencies = [row + [expander[0] + (far[0] - near) * i] for i, row in enumerate(latencies)]
        latencies.append([None] * (nodes + 1))
    out = f'format = 1\nname = "{name}"\ndescription = "A machine of benches/predictions."\n\n'
    out += matrix("latency_ns", latencies)
    out += '[topology]\nsource = "chosen for the bench"\nconfidence = "H"\nthreads_per_core = 1\ndies_per_package = 1\nline_bytes = 64\n\n'
    for node in range(nodes):
        first, last = node * cpus, node * cpus + cpus - 1
        out += f'[[node]]\nid = {node}\ncpus = "{first}-{last}"\nkind = "dram"\npackage = {node}\n\n'
    if expander:
        out += f'[[node]]\nid = {nodes}\ncpus = ""\nkind = "cxl"\npackage = 0\n\n'
    out += "[core]\n" + figures(base_ghz=2.0, all_core_ghz=2.0, ipc=2.0, outstanding_lines=10, read_gbs=10, update_gbs=9,
                                walk_cycles=30, page_walkers=2)
    for level, kib, ways, cycles, cores in ((1, 32, 8, 4, 1), (2, 64, 8, 12, 1), (3, l3_kib, 16, 40, cpus)):
        keeps = {1: "", 2: 'inclusion = "neither"\n', 3: 'inclusion = "inclusive"\n'}[level]
        out += f"\n[[cache]]\nlevel = {level}\ncores_per_instance = {cores}\n{keeps}"
        out += figures(size_bytes=kib * 1024, ways=ways, latency_cycles=cycles)
    for level, entries, ways in ((1, 64, 4), (2, 1536, 12)):
        out += f"\n[[tlb]]\nlevel = {level}\npage_bytes = [4096, 2097152]\n" + figures(entries=entries, ways=ways)
    rates = lambda gbs: figures(peak_gbs=1.2 * gbs, read_gbs=gbs, triad_gbs=0.9 * gbs, update_gbs=0.85 * gbs)
    out += f'\n[[bandwidth]]\nnodes = "0-{nodes - 1}"\n' + rates(memory)
    if expander:
        out += f'\n[[bandwidth]]\nnodes = "{nodes}"\n' + rates(expander[1])
    ends = [(i, j) for i in range(nodes) for j in range(i + 1, nodes)]
    for i, j in ends + ([(0, nodes)] if expander else []):
        out += f"\n[[link]]\nfrom = {i}\nto = {j}\n"
        out += figures(count=1, gbs_per_direction=link if j < nodes else 2 * expander[1])
    return out + "\n[time]\n" + figures(control_bytes=16)


# By name: its file's text, its nodes with cpus, and the cpus of each.
MACHINES = {
    "2x4": (described("2x4", 2, 4, 80, [130], 1024, 24, 14), 2, 4),
    "4x2": (described("4x2", 4, 2, 90, [150], 512, 14, 8), 4, 2),
    "8x1": (described("8x1", 8, 1, 80, [120, 170], 384, 9, 6), 8, 1),
    "2x2+cxl": (described("2x2+cxl", 2, 2, 90, [140], 768, 18, 12, expander=(230, 9)), 2, 2),
}
