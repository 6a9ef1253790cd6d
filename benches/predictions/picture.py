"""The pairs as an SVG: predicted against obtained, and how many are how far off."""
from xml.sax.saxutils import escape

from machine import MACHINES
from tables import error, inside

COLOURS = dict(zip(MACHINES, ("#2b6cb0", "#c2570c", "#1a6e50", "#8456a8")))
STYLE = ("text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#16191f;font-size:12px}"
         ".title{font-size:15px;font-weight:600}.small{font-size:11px;fill:#59606d}.grid{stroke:#e4e7ec}"
         ".axis{stroke:#59606d;fill:none}.band{fill:#f0f2f5}.line{stroke:#16191f;fill:none}")
WIDTH, HEIGHT = 900, 430
TOP, SIDE = 60, 310


class Axes:
    """A square with a scale on both sides."""

    def __init__(self, left, x_to, y_to):
        self.left, self.x_to, self.y_to = left, x_to, y_to

    def x(self, value):
        return self.left + SIDE * min(value, self.x_to) / self.x_to

    def y(self, value):
        return TOP + SIDE * (1 - min(value, self.y_to) / self.y_to)

    def frame(self, x_ticks, y_ticks, x_label, y_label):
        out = []
        for value, text in x_ticks:
            out.append(f'<path class="grid" d="M{self.x(value):.1f} {TOP}V{TOP + SIDE}"/>')
            out.append(f'<text x="{self.x(value):.1f}" y="{TOP + SIDE + 16}" text-anchor="middle">{text}</text>')
        for value, text in y_ticks:
            out.append(f'<path class="grid" d="M{self.left} {self.y(value):.1f}h{SIDE}"/>')
            out.append(f'<text x="{self.left - 6}" y="{self.y(value) + 4:.1f}" text-anchor="end">{text}</text>')
        out.append(f'<path class="axis" d="M{self.left} {TOP}v{SIDE}h{SIDE}"/>')
        out.append(f'<text class="small" x="{self.left + SIDE / 2}" y="{TOP + SIDE + 34}" text-anchor="middle">{escape(x_label)}</text>')
        out.append(f'<text class="small" x="{self.left - 36}" y="{TOP - 10}">{escape(y_label)}</text>')
        return out


def scatter(pairs):
    most = max(max(p["ratio"], p["obtained"]) for p in pairs)
    step = 0.2 if most <= 1.6 else 0.5
    most = step * -(-most // step)
    axes = Axes(60, most, most)
    x, y = axes.x, axes.y
    corners = [(0, 0), (0, 0.1), (most - 0.1, most), (most, most), (most, most - 0.1), (0.1, 0)]
    out = [f'<path class="band" d="M{" ".join(f"{x(a):.1f} {y(b):.1f}" for a, b in corners)}Z"/>']
    ticks = [(i * step, f"{i * step:.1f}") for i in range(round(most / step) + 1)]
    out += axes.frame(ticks, ticks, "predicted time / time before", "obtained time / time before")
    out.append(f'<path class="line" d="M{x(0)} {y(0)}L{x(most)} {y(most)}"/>')
    for p in sorted(pairs, key=lambda p: (inside(p), p["base"])):
        colour = COLOURS[p["machine"]]
        mark = f'cx="{x(p["ratio"]):.1f}" cy="{y(p["obtained"]):.1f}" r="3.5"'
        fill = f'fill="{colour}" fill-opacity=".65"' if inside(p) else f'fill="#fff" stroke="{colour}" stroke-width="2"'
        title = escape(f"{p['machine']}, {p['program']}: {p['repair']} {', '.join(p['objects'])}: {p['ratio']:.3f}, {p['obtained']:.3f}")
        out.append(f"<circle {mark} {fill}><title>{title}</title></circle>")
    for i, name in enumerate(n for n in MACHINES if any(p["machine"] == n for p in pairs)):
        out.append(f'<circle cx="{x(0) + 14}" cy="{TOP + 12 + 17 * i}" r="4" fill="{COLOURS[name]}"/>')
        out.append(f'<text x="{x(0) + 24}" y="{TOP + 16 + 17 * i}">{name}</text>')
    return out


def cumulative(pairs):
    off = sorted(abs(error(p)) for p in pairs)
    most = max(12.0, 4 * -(-off[-1] // 4))
    axes = Axes(540, most, 100)
    x, y = axes.x, axes.y
    step = 2 if most <= 16 else 4
    out = axes.frame([(i, f"{i:.0f}") for i in range(0, int(most) + 1, step)], [(i, f"{i} %") for i in range(0, 101, 20)],
                     "at most so many points off", "pairs")
    path = f"M{x(0):.1f} {y(0):.1f}"
    for i, value in enumerate(off):
        path += f"H{x(value):.1f}V{y(100 * (i + 1) / len(off)):.1f}"
    out.append(f'<path class="line" stroke-width="2" d="{path}H{x(most):.1f}"/>')
    for limit, anchor in ((3, "start"), (10, "middle")):
        share = 100 * sum(o <= limit for o in off) / len(off)
        out.append(f'<circle cx="{x(limit):.1f}" cy="{y(share):.1f}" r="4" fill="#c2570c"/>')
        out.append(f'<text x="{x(limit):.1f}" y="{y(share) + 20:.1f}" text-anchor="{anchor}">{share:.0f} % within {limit}</text>')
    return out


def svg(pairs):
    """The whole picture."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
           f"<title>Predicted and obtained times of {len(pairs)} repairs</title>", f"<style>{STYLE}</style>",
           '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text class="title" x="24" y="26">{len(pairs)} repairs: predicted from one run, and obtained</text>',
           *scatter(pairs), *cumulative(pairs),
           f'<text class="small" x="24" y="{HEIGHT - 8}">Grey: 10 points either way. Open circles: outside the predicted range.</text>', "</svg>"]
    return "\n".join(out) + "\n"
