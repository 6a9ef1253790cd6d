#!/usr/bin/env python3
"""A picture of a line that nodes take from each other: `line.py REPORT.json KIND FILE.svg`, from `nearfar report --json`."""
import html
import json
import re
import sys

report, kind, to = sys.argv[1:]
report = json.load(open(report))
finding = next((f for f in report["findings"] if f["kind"] == kind), None)
if finding is None:
    sys.exit(f"no finding {kind}, but {[f['kind'] for f in report['findings']]}")
evidence = finding["evidence"][0]
taken = re.search(r"about (\d+) times a cache of another node supplied", evidence)
users = re.search(r"used by (\d+) threads?: ([0-9, and]+)", evidence)
if not taken or not users:
    sys.exit(f"other words than this script knows: {evidence}")
times = f"{int(taken.group(1)):,} times"
what = f"a line of {', '.join(finding['objects'])}"
at = f"written in {finding['cause']['function']} at {finding['cause']['at'].split('/')[-1]} by threads {users.group(2)}"
title = {
    "false_sharing": "Threads of two nodes write to different bytes of one line",
    "contended_line": "Threads of two nodes write to the same bytes of a line",
}[kind]


def text(x, y, words, kind="", end="start"):
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{end}">{html.escape(words)}</text>'


out = [
    '<svg xmlns="http://www.w3.org/2000/svg" width="560" height="178" viewBox="0 0 560 178">',
    f"<title>{html.escape(finding['cause']['text'])}</title>",
    "<style>text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#16191f;font-size:12px}"
    ".title{font-size:15px;font-weight:600}.small{font-size:11px;fill:#59606d}.in{fill:#fff}"
    ".way{stroke:#c2570c;stroke-width:3;fill:none}.tip{fill:#c2570c}</style>",
    '<rect width="100%" height="100%" fill="#fff"/>',
    text(10, 22, title, "title"),
]
for x, colour, node in zip((10, 400), ("#16877a", "#8456a8"), (0, 1)):
    out.append(f'<rect x="{x}" y="48" width="150" height="62" fill="{colour}"/>')
    out.append(text(x + 75, 74, f"caches of node {node}", "in", "middle"))
    out.append(text(x + 75, 94, what, "in", "middle"))
for y, tip in ((68, "390,62 400,68 390,74"), (92, "170,86 160,92 170,98")):
    out.append(f'<path class="way" d="M{168 if y == 68 else 392} {y}H{392 if y == 68 else 168}"/><path class="tip" d="M{tip}z"/>')
out.append(text(280, 60, times, "", "middle"))
out.append(text(280, 112, "the other node had written it", "small", "middle"))
out.append(text(10, 140, at, "small"))
out.append(text(10, 164, "source: lines counted on an emulated machine", "small"))
out.append("</svg>")
open(to, "w").write("\n".join(out) + "\n")
