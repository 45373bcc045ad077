"""A plot of live memory over a program: the bytes alive while each equation runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tinyjax.ir.holding import AnyProgram
from tinyjax.ir.printing.html import escape
from tinyjax.ir.printing.printer import format_eqn, variable_names
from tinyjax.tools.cost.memory import LiveMemory, live_memory
from tinyjax.tools.texts import Svg

_LEFT: Final = 78.0
_RIGHT: Final = 18.0
_TOP: Final = 22.0
_BOTTOM: Final = 28.0
#: The plot has at most so many steps; each shows the most of the equations that it stands for.
_STEPS: Final = 400

#: Programs are looked into so deep.
_DEEPEST: Final = 4

_STYLE: Final = (
    ".tinyjax-memory{--m-fg:#24292f;--m-dim:#6e7781;--m-line:#dde2e8;--m-area:#0a66c2;--m-peak:#b3401a}"
    "@media (prefers-color-scheme:dark){.tinyjax-memory{--m-fg:#d1d7e0;--m-dim:#8d96a0;--m-line:#2d353f;"
    "--m-area:#6cb0ff;--m-peak:#ff9a70}}"
    ".tinyjax-memory text{font:11px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;"
    "fill:var(--m-dim)}.tinyjax-memory .g{stroke:var(--m-line)}"
    ".tinyjax-memory .m{fill:var(--m-area);fill-opacity:.16;stroke:none}"
    ".tinyjax-memory .l{fill:none;stroke:var(--m-area);stroke-width:1.5;stroke-linejoin:round}"
    ".tinyjax-memory .n{stroke:var(--m-dim);stroke-dasharray:3 3}"
    ".tinyjax-memory .k{fill:var(--m-peak)}.tinyjax-memory text.k{fill:var(--m-peak);font-weight:600}"
    ".tinyjax-memory .h{fill:var(--m-fg);fill-opacity:0}.tinyjax-memory .h:hover{fill-opacity:.07}"
)


def memory_plot(program: AnyProgram | LiveMemory, *, width: int = 900, height: int = 220) -> Svg:
    """Live memory over a program, as SVG: for each equation the bytes that are alive while it runs, the peak, and a
    dashed line for the inputs, which are alive throughout. It is a `str`, which notebooks show as a picture. Loops and
    other equations that apply programs are divided into the equations of these, which shows what one iteration needs.
    See `tinyjax.tools.cost` for what counts.

    >>> from tinyjax import ShapedArray, make_jaxpr, numpy as tnp
    >>> plot = memory_plot(make_jaxpr(lambda x: tnp.sum(tnp.sin(x)))(ShapedArray((100,), "float32")))
    >>> "peak 804 B" in plot
    True
    """
    memory = program if isinstance(program, LiveMemory) else live_memory(program)
    count = len(memory.during)
    across, up = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    top, unit = _scale(max(memory.peak, 1))

    def y(value: float) -> float:
        return _TOP + up * (1 - value / top)

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tinyjax-memory" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="Live memory: peak '
        f'{size_text(memory.peak)}" data-left="{_LEFT:g}" data-width="{across:g}" data-count="{count}">'
        f"<style>{_STYLE}</style>\n"
    )
    out = [head]
    for tick in range(round(top / unit) + 1):
        at = y(tick * unit)
        out.append(f'<path class="g" d="M{_LEFT:g} {at:.1f}h{across:g}"/>')
        out.append(f'<text x="{_LEFT - 8:g}" y="{at + 4:.1f}" text-anchor="end">{size_text(tick * unit)}</text>\n')
    out.append(f'<path class="n" d="M{_LEFT:g} {y(memory.inputs):.1f}h{across:g}"/>\n')
    line: list[str] = []
    hovers: list[str] = []
    for first, last, value, text in _steps(memory):
        left, right = (_LEFT + across * place / count for place in (first, last))
        line.append(f"{left:.1f} {y(value):.1f}H{right:.1f}")
        hovers.append(
            f'<rect class="h" x="{left:.1f}" y="{_TOP:g}" width="{right - left:.1f}" height="{up:g}">'
            f"<title>{escape(text)}</title></rect>\n"
        )
    if line:
        path = "L".join(line)
        out.append(f'<path class="m" d="M{_LEFT:g} {_TOP + up:g}L{path}V{_TOP + up:g}z"/>')
        out.append(f'<path class="l" d="M{path}"/>\n')
    peak_at = memory.peak_at
    if peak_at is not None:
        x = _LEFT + across * (peak_at + 0.5) / count
        anchor = "start" if x < width / 3 else "end" if x > 2 * width / 3 else "middle"
        out.append(f'<circle class="k" cx="{x:.1f}" cy="{y(memory.peak):.1f}" r="3.5"/>')
        label = f"peak {size_text(memory.peak)} at equation {peak_at}"
        out.append(f'<text class="k" x="{x:.1f}" y="{_TOP - 8:g}" text-anchor="{anchor}">{label}</text>\n')
    out.append(f'<text x="{_LEFT:g}" y="{height - 8}">equation 0</text>')
    if count > 1:
        out.append(f'<text x="{width - _RIGHT:g}" y="{height - 8}" text-anchor="end">{count - 1}</text>')
    out.append(f"\n{''.join(hovers)}</svg>\n")
    return Svg("".join(out))


def _steps(memory: LiveMemory) -> Iterator[tuple[float, float, int, str]]:
    """Where each step begins and ends, in equations, its bytes, and what it is. An equation that applies programs is
    divided into theirs, as long as there is room."""
    count = len(memory.during)
    if count > _STEPS:  # each step stands for several equations
        names = variable_names(memory.jaxpr)
        for step in range(_STEPS):
            at, to = step * count // _STEPS, (step + 1) * count // _STEPS
            most = max(range(at, to), key=memory.during.__getitem__)
            yield at, to, memory.during[most], _step_text(memory, most, names, f"{most}")
        return
    # Programs that are still to be drawn: from where to where, and how their equations are numbered.
    pending: list[tuple[LiveMemory, float, float, str, int]] = [(memory, 0.0, float(count), "", 0)]
    narrowest = count / _STEPS
    drawn: list[tuple[float, float, int, str]] = []
    while pending:
        found, start, end, prefix, depth = pending.pop()
        names = variable_names(found.jaxpr)
        width = (end - start) / max(len(found.during), 1)
        divided = width > narrowest and depth < _DEEPEST
        for position, value in enumerate(found.during):
            first, last = start + position * width, start + (position + 1) * width
            within = [inner for inner in found.within(position) if inner.during] if divided else []
            share = width / max(len(within), 1)
            if within and share / max(len(inner.during) for inner in within) >= narrowest / 4:
                for i, inner in enumerate(within):
                    number = f"{prefix}{position}." + (f"{i}." if len(within) > 1 else "")
                    pending.append((inner, first + i * share, first + (i + 1) * share, number, depth + 1))
            else:
                drawn.append((first, last, value, _step_text(found, position, names, f"{prefix}{position}")))
    yield from sorted(drawn)


def _step_text(memory: LiveMemory, position: int, names: Mapping[int, str], number: str) -> str:
    shown = format_eqn(memory.jaxpr.eqns[position], names, short=True)
    return f"{number}: {size_text(memory.during[position])}\n{shown}"


def size_text(size: float) -> str:
    """A number of bytes in a unit that suits it.

    >>> size_text(804), size_text(1536), size_text(3 * 2**30)
    ('804 B', '1.5 KiB', '3 GiB')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    unit = 0
    while size >= 1024 and unit < len(units) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {units[unit]}" if size >= 100 else f"{size:.3g} {units[unit]}"


def _scale(most: int) -> tuple[float, float]:
    """The end of an axis from 0 that has room for `most`, and the distance of its ticks: 1, 2 or 5 times a power of ten
    of a unit of bytes."""
    base = 1.0
    while most / base >= 1024:
        base *= 1024
    step = base
    while most / step > 50:
        step *= 10
    while most / step < 5 and step > 1:
        step /= 10
    unit = next(unit for unit in (max(step * factor, 1.0) for factor in (1, 2, 5, 10, 20)) if most / unit <= 5)
    ticks = -(-most // unit)
    return ticks * unit, unit
