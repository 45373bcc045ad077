"use strict";
(() => {
  // What the page shows is made from one table; see viewer.py. Rows have one height, and only those in sight exist.
  const data = JSON.parse(document.getElementById("data").textContent);
  const { programs, primitives, sources, avals, literals } = data;
  const get = (id) => document.getElementById(id);
  const list = get("list"), rows = get("rows"), side = get("side"), tip = get("tip");
  const search = get("search"), found = get("found"), plot = get("plot");
  const HEIGHT = 22, STEP = 36, DEEPEST = 24, MOST = 200000, OPEN = 400;

  const element = (tag, kind, text) => {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const bytes = (count) => {
    let unit = 0;
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    while (count >= 1024 && unit < 6) { count /= 1024; unit += 1; }
    return unit === 0 && count === 1 ? "1 byte" : `${Number(count.toFixed(1))} ${units[unit]}`;
  };

  // Of each program: which equation binds a variable, and which read it; -1 stands for the inputs, or the outputs.
  const known = new Map();
  function uses(number) {
    let found = known.get(number);
    if (found === undefined) {
      const program = programs[number];
      const makers = new Array(program.names.length).fill(-1);
      const readers = program.names.map(() => []);
      program.eqns.forEach((eqn, i) => {
        for (const out of eqn[1]) makers[out] = i;
        for (const v of new Set(eqn[2])) if (v >= 0) readers[v].push(i);
      });
      for (const v of new Set(program.outs)) if (v >= 0) readers[v].push(-1);
      known.set(number, found = { makers, readers });
    }
    return found;
  }

  // Where each program is first shown: the program around it, and the equation.
  const owner = [null];
  programs.forEach((program, number) => program.eqns.forEach((eqn, i) => {
    for (const [, child] of eqn[4] || []) if (child !== 0 && owner[child] === undefined) owner[child] = [number, i];
  }));

  // An instance is a program at a place; `open` has the instances within, by equation.
  const instance = (number, depth) => ({ number, depth, open: new Map() });
  const root = instance(0, 0);
  const toggle = (node, i, to) => {
    if (to === undefined ? node.open.has(i) : !to) node.open.delete(i);
    else if (!node.open.has(i)) {
      node.open.set(i, (programs[node.number].eqns[i][4] || []).map(([, child]) => instance(child, node.depth + 1)));
    }
  };
  const counted = programs.reduce((sum, program) => sum + program.eqns.length + 2, 0);
  function expandAll(limit) {
    let left = limit;
    const queue = [root];
    for (let at = 0; at < queue.length && left > 0; at += 1) {
      const node = queue[at], eqns = programs[node.number].eqns;
      left -= eqns.length + 3;
      eqns.forEach((eqn, i) => {
        if (eqn[4] && left > 0) { toggle(node, i, true); queue.push(...node.open.get(i)); }
      });
    }
  }

  // What has many variables takes several rows: `part` says which of them one is.
  const HEADS = 8, ATOMS = 16;
  const pieces = (count, most) => Math.max(1, Math.ceil(count / most));
  const piece = (all, part, most) => all.slice(part * most, (part + 1) * most);
  function push(node, kind, parts, i) {
    for (let part = 0; part < parts; part += 1) shown.push({ node, kind, i, part, last: part === parts - 1 });
  }

  let shown = [];
  function flatten() {
    shown = [];
    const stack = [{ node: root, i: -1 }];
    while (stack.length) {
      const frame = stack[stack.length - 1], { node } = frame, program = programs[node.number];
      if (frame.pending && frame.pending.length) {
        const [label, child] = frame.pending.shift();
        shown.push({ node: child, kind: "label", label });
        stack.push({ node: child, i: -1 });
        continue;
      }
      if (frame.i < 0) push(node, "head", pieces(program.ins, HEADS));
      frame.i += 1;
      if (frame.i >= program.eqns.length) {
        push(node, "foot", pieces(program.outs.length, ATOMS));
        stack.pop();
        continue;
      }
      const eqn = program.eqns[frame.i];
      push(node, "eqn", pieces(eqn[1].length, HEADS) + pieces(eqn[2].length, ATOMS) - 1, frame.i);
      const inner = node.open.get(frame.i);
      if (inner) frame.pending = inner.map((child, k) => [program.eqns[frame.i][4][k][0], child]);
    }
    rows.style.height = `${shown.length * HEIGHT}px`;
    rows.textContent = "";
    drawn.clear();
    draw();
  }

  let selected = null, hits = [], hit = -1, flash = -1;
  const hitKeys = new Set();
  const drawn = new Map();
  function draw() {
    const from = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 20);
    const to = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + 20);
    for (const [i, row] of drawn) if (i < from || i >= to) { row.remove(); drawn.delete(i); }
    const fresh = document.createDocumentFragment();
    for (let i = from; i < to; i += 1) if (!drawn.has(i)) {
      const row = render(shown[i], i);
      drawn.set(i, row);
      fresh.append(row);
    }
    rows.append(fresh);
  }
  function redraw() { rows.textContent = ""; drawn.clear(); draw(); }

  function variable(number, id, binds) {
    const span = element("span", "v", programs[number].names[id]);
    span.dataset.p = number; span.dataset.v = id;
    if (selected && selected.number === number && selected.id === id) span.className = binds ? "v sel def" : "v sel";
    return span;
  }
  function atom(number, id) {
    if (id >= 0) return variable(number, id, false);
    const span = element("span", "n", literals[-id - 1][0]);
    span.dataset.l = -id - 1;
    return span;
  }
  const called = (number, id) => (programs[number].called || [])[id] || "";
  const argument = (number, id) => called(number, id) ? [element("span", "k", `\u00A0${called(number, id)}`)] : [];
  const typed = (number, id) => [variable(number, id, true), element("span", "t", `:${avals[programs[number].types[id]][0]}`)];
  const spaced = (row, parts) => parts.forEach((part, i) => { if (i) row.append(" "); row.append(...[part].flat()); });

  function render(item, at) {
    const { node, kind } = item, number = node.number, program = programs[number];
    const row = element("div", "row");
    row.style.top = `${at * HEIGHT}px`;
    row.setAttribute("role", "treeitem");
    const { part, last } = item;
    row.append(element("span", "no", kind === "eqn" && part === 0 ? item.i : ""));
    const pad = element("span", "in");
    pad.style.width = `${Math.min(node.depth, DEEPEST) * STEP}px`;
    row.append(pad);
    if (kind === "label") {
      row.append(element("span", "k", item.label + (program.shared ? ` = @f${number}` : "")));
    } else if (kind === "head") {
      row.append(element("span", "k", part === 0 ? "{ lambda " : "         "));
      const ids = piece(program.names.slice(0, program.ins).map((_, id) => id), part, HEADS);
      const binders = (some) => some.map((id) => [...typed(number, id), ...argument(number, id)]);
      const consts = ids.filter((id) => id < program.consts), rest = ids.filter((id) => id >= program.consts);
      spaced(row, binders(consts));
      const divided = part === Math.min(Math.floor(program.consts / HEADS), pieces(program.ins, HEADS) - 1);
      if (divided) row.append(element("span", "k", rest.length ? "; " : ";"));
      spaced(row, binders(rest));
      if (last) row.append(element("span", "k", ". let"));
    } else if (kind === "foot") {
      row.append(element("span", "k", part === 0 ? " in (" : "     "));
      spaced(row, piece(program.outs, part, ATOMS).map((id) => atom(number, id)));
      if (last) row.append(element("span", "k", ") }"));
    } else {
      const eqn = program.eqns[item.i], primitive = primitives[eqn[0]];
      const open = node.open.has(item.i);
      row.append(element("span", "tw", eqn[4] && part === 0 ? (open ? "\u25BE" : "\u25B8") : ""));
      if (eqn[4] && part === 0) row.setAttribute("aria-expanded", open);
      if (part > 0) row.append("  ");
      spaced(row, piece(eqn[1], part, HEADS).map((id) => typed(number, id)));
      const after = part - pieces(eqn[1].length, HEADS) + 1;  // the row of operands that this one has, too
      if (after === 0) {
        row.append(element("span", "k", eqn[1].length ? " = " : ""));
        const name = element("span", "f", primitive[0]);
        name.dataset.p = number; name.dataset.e = item.i;
        row.append(name);
        if (primitive[1].length) row.append(element("span", "p", `[${primitive[1].map(short).join(" ")}]`));
      }
      if (after >= 0) for (const id of piece(eqn[2], after, ATOMS)) row.append(" ", atom(number, id));
      if (hitKeys.has(`${number}:${item.i}`)) row.classList.add("hit");
    }
    if (at === flash) row.classList.add("now");
    row.dataset.at = at;
    return row;
  }
  const short = ([name, value]) => `${name}=${value.length > 80 ? `${value.slice(0, 80)}\u2026` : value}`;
  const full = (number, i) => {
    const eqn = programs[number].eqns[i], names = programs[number].names, primitive = primitives[eqn[0]];
    const word = (id) => id >= 0 ? names[id] : literals[-id - 1][0];
    const outs = eqn[1].map((id) => `${names[id]}:${avals[programs[number].types[id]][0]}`).join(" ");
    const parameters = primitive[1].map(([name, value]) => `${name}=${value}`).join(" ");
    const head = `${primitive[0]}${parameters ? `[${parameters}]` : ""}`;
    return [outs, outs ? "=" : "", head, ...eqn[2].map(word)].filter(Boolean).join(" ");
  };
  const line = (number, i) => i >= 0 && programs[number].eqns[i][3] >= 0 ? sources[programs[number].eqns[i][3]] : "";

  // Going to an equation, also of a program that isn't open yet.
  function reveal(number, i) {
    let at = shown.findIndex((item) => item.node.number === number && matches(item, i));
    if (at < 0) {
      const path = [];
      for (let step = owner[number], inner = number; step; step = owner[step[0]]) { path.unshift([...step, inner]); inner = step[0]; }
      let node = root;
      for (const [, eqn, inner] of path) {
        toggle(node, eqn, true);
        node = node.open.get(eqn).find((child) => child.number === inner);
      }
      flatten();
      at = shown.findIndex((item) => item.node === node && matches(item, i));
    }
    if (at < 0) return;
    flash = at;
    const top = at * HEIGHT;
    if (top < list.scrollTop + 2 * HEIGHT || top > list.scrollTop + list.clientHeight - 3 * HEIGHT) {
      list.scrollTop = Math.max(0, top - list.clientHeight / 3);
    }
    redraw();
  }
  const matches = (item, i) => i === -2 ? item.kind === "head" : i === -1 ? item.kind === "foot" : item.kind === "eqn" && item.i === i;

  function select(number, id) {
    selected = { number, id };
    const { makers, readers } = uses(number), program = programs[number];
    const [text, size] = avals[program.types[id]];
    side.textContent = "";
    side.append(element("h2", "", program.names[id] === "_" ? "_ (not read)" : program.names[id]), element("p", "", `${text}, ${bytes(size)}`));
    const maker = makers[id];
    side.append(element("h3", "", "Made by"), entries([maker < 0 ? -2 : maker], number));
    if (line(number, maker)) side.append(element("p", "source", line(number, maker)));
    side.append(element("h3", "", `Read ${readers[id].length === 1 ? "once" : `${readers[id].length} times`}`), entries(readers[id], number));
    redraw();
  }
  const argumentText = (number, id) => called(number, id) && `argument ${called(number, id)}`;
  function entries(eqns, number) {
    const items = element("ul");
    for (const i of eqns.slice(0, 300)) {
      const item = element("li");
      item.append(element("span", "text", i === -2 ? argumentText(number, selected.id) || "the program's input" : i === -1 ? "the program's output" : full(number, i)), element("span", "", i < 0 ? "" : i));
      item.addEventListener("click", () => reveal(number, i));
      items.append(item);
    }
    if (eqns.length > 300) items.append(element("li", "", `\u2026 ${eqns.length - 300} more`));
    return items;
  }
  function overview() {
    side.textContent = "";
    const total = programs.reduce((sum, program) => sum + program.eqns.length, 0);
    side.append(element("h2", "", `${total} equation${total === 1 ? "" : "s"}`));
    side.append(element("p", "", programs.length === 1 ? "in one program" : `in ${programs.length} distinct programs`));
    const tally = new Map();
    for (const program of programs) for (const eqn of program.eqns) {
      const name = primitives[eqn[0]][0];
      tally.set(name, (tally.get(name) || 0) + 1);
    }
    side.append(element("h3", "", "Primitives"));
    const items = element("ul");
    for (const [name, count] of [...tally].sort((a, b) => b[1] - a[1]).slice(0, 60)) {
      const item = element("li");
      item.append(element("span", "text", name), element("span", "", count));
      item.addEventListener("click", () => { search.value = name; find(); });
      items.append(item);
    }
    side.append(items);
  }

  // Search goes over all equations, also of programs that aren't open.
  let texts = null;
  function find() {
    const wanted = search.value.trim().toLowerCase();
    hits = []; hit = -1; flash = -1;
    hitKeys.clear();
    if (wanted) {
      texts ||= programs.map((program, number) => program.eqns.map((_, i) => `${full(number, i)} ${line(number, i)}`.toLowerCase()));
      texts.forEach((eqns, number) => eqns.forEach((text, i) => {
        if (text.includes(wanted)) { hits.push([number, i]); hitKeys.add(`${number}:${i}`); }
      }));
    }
    if (hits.length) step(1); else { found.textContent = wanted ? "none" : ""; redraw(); }
  }
  function step(by) {
    if (!hits.length) return;
    hit = (hit + by + hits.length) % hits.length;
    found.textContent = `${hit + 1}/${hits.length}`;
    reveal(...hits[hit]);
  }

  function hint(target) {
    const { p, v, e, l } = target.dataset;
    tip.textContent = "";
    if (v !== undefined) {
      const program = programs[p], [text, size] = avals[program.types[v]], maker = uses(Number(p)).makers[v];
      tip.append(`${program.names[v]}: ${text}, ${bytes(size)}`);
      const from = maker < 0 ? argumentText(p, v) || "an input" : `${primitives[program.eqns[maker][0]][0]}${line(p, maker) ? `, ${line(p, maker)}` : ""}`;
      tip.append(element("br"), element("i", "", from));
    } else if (e !== undefined) {
      tip.append(full(p, e));
      if (line(p, e)) tip.append(element("br"), element("i", "", line(p, e)));
    } else if (l !== undefined) tip.append(avals[literals[l][1]][0]);
    else return false;
    return true;
  }

  rows.addEventListener("mouseover", (event) => {
    tip.hidden = !hint(event.target);
    if (tip.hidden) return;
    const box = event.target.getBoundingClientRect(), size = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - size.width - 8))}px`;
    tip.style.top = `${box.bottom + size.height + 10 < innerHeight ? box.bottom + 5 : box.top - size.height - 5}px`;
  });
  rows.addEventListener("mouseleave", () => { tip.hidden = true; });
  rows.addEventListener("click", (event) => {
    const { p, v } = event.target.dataset;
    if (v !== undefined) { select(Number(p), Number(v)); return; }
    const row = event.target.closest(".row"), item = row && shown[row.dataset.at];
    if (!item || !getSelection().isCollapsed) return;
    if (item.kind === "eqn" && programs[item.node.number].eqns[item.i][4]) {
      toggle(item.node, item.i);
      flash = -1;
      flatten();
    } else if (selected) { selected = null; overview(); redraw(); }
  });
  list.addEventListener("scroll", () => { tip.hidden = true; draw(); });
  addEventListener("resize", draw);
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; find(); list.focus(); }
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); search.select(); }
  });
  get("expand").addEventListener("click", () => { expandAll(MOST); flash = -1; flatten(); });
  get("collapse").addEventListener("click", () => { root.open.clear(); flash = -1; flatten(); });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = (theme) => { document.documentElement.dataset.theme = theme; };
  paint(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => paint(dark.matches ? "dark" : "light"));
  get("theme").addEventListener("click", () => paint(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  const picture = plot.querySelector("svg");
  get("memory").hidden = !picture;
  get("memory").addEventListener("click", (event) => {
    plot.hidden = !plot.hidden;
    event.currentTarget.setAttribute("aria-pressed", String(!plot.hidden));
    draw();
  });
  if (picture) picture.addEventListener("click", (event) => {
    const { left, width, count } = picture.dataset;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
    const i = Math.floor((point.x - left) / width * count);
    if (i >= 0 && i < count) reveal(0, i);
  });

  get("type").textContent = get("type").title = data.type;
  if (counted <= OPEN) expandAll(OPEN);
  overview();
  flatten();
})();
