// The edges between the boxes of scopes, and words about the chosen one; see page.js.

const LABELS = 12;  // How many of the largest edges always have one.
const BEND = 120;  // How high an edge is, in pixels, that goes half as far out as the room allows.
const TOLD = 8;  // How many meetings of the chosen scope are told in words.

const bytes = (number) => short(number) + (number < 1e3 ? " B" : "B");
const plural = (number, one) => `${number} ${one}${number === 1 ? "" : "s"}`;

function touches(one, scope) {
  return [one.from, ...one.to].some((end) => inside(end, scope));
}

// The edges between visible scopes, largest first. An edge is of each meeting that it stands for.
function edges() {
  const groups = new Map();
  for (const one of meetings) {
    const from = shown(one.from);
    for (const to of new Set(one.to.map(shown))) {
      const key = JSON.stringify([from.path, to.path, one.join]);
      const edge = groups.get(key)
        ?? {from, to, join: one.join, bytes: 0, tensors: 0, kinds: new Set(), chosen: false};
      edge.bytes += one.bytes;
      edge.tensors += 1;
      edge.kinds.add(one.kind);
      edge.chosen ||= touches(one, selected);
      groups.set(key, edge);
    }
  }
  return [...groups.values()].sort((one, other) => other.bytes - one.bytes);
}

// Sets where each edge begins and ends, `y1` and `y2`, so that no two cross at a box.
function spread(edges, boxes) {
  const at = new Map();
  const middle = ({path}) => boxes.get(path).offsetTop + boxes.get(path).offsetHeight / 2;
  edges.forEach((edge, rank) => {
    for (const [y, end, other] of [["y1", edge.from, edge.to], ["y2", edge.to, edge.from]]) {
      const far = (middle(other) - middle(end)) * (1 + rank / 1e6);
      if (!at.has(end)) at.set(end, []);
      at.get(end).push({edge, y, turn: far ? 1 / far : 0});
    }
  });
  for (const [scope, all] of at) {
    const step = Math.min(6, 22 / all.length);
    all.sort((one, other) => one.turn - other.turn).forEach(({edge, y}, place) => {
      edge[y] = middle(scope) + (place - (all.length - 1) / 2) * step;
    });
  }
}

function drawn(name, attributes, text) {
  const made = document.createElementNS(svg.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function drawEdges() {
  const boxes = new Map([...tree.children].map((box) => [box.dataset.path, box]));
  const all = edges(), first = boxes.get("");
  const x = first.offsetLeft + first.offsetWidth + 1, room = svg.clientWidth - x - 62;
  spread(all, boxes);
  const groups = all.map((edge) => {
    if (edge.from === edge.to) {
      edge.y1 = (edge.y1 + edge.y2) / 2 - 4;
      edge.y2 = edge.y1 + 8;
    }
    const {y1, y2} = edge, high = Math.abs(y2 - y1);
    const width = Math.max(1, Math.log10(edge.bytes + 1) - 2), head = 5 + width;
    edge.far = x + 14 + (room / 0.75 - 14) * high / (high + BEND);
    const group = drawn("g", {class: `${edge.join ? "join" : "sum"}${edge.chosen ? "" : " dim"}`});
    const line = `M${x} ${y1} C${edge.far} ${y1} ${edge.far} ${y2} ${x + head} ${y2}`;
    const kinds = [...edge.kinds].join(", ");
    const size = `${bytes(edge.bytes)} in ${plural(edge.tensors, "tensor")}`;
    group.append(
      drawn("title", {}, `${named(edge.from)} to ${named(edge.to)}: ${size}, ${kinds}`),
      drawn("path", {d: line, "stroke-width": width}),
      drawn("path", {class: "head", d: `M${x} ${y2} l${head} ${-head / 2} v${head} z`}));
    return group;
  });
  label(all, groups, x);
  svg.replaceChildren(...groups);
}

// Places on a curve: where its label may be, the best ones first, and all along it.
const PLACES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82];
const FINE = Array.from({length: 41}, (_, at) => at / 40);

// Adds labels to edges: to the largest, and to those of the chosen scope, where there is room.
function label(all, groups, x) {
  const wanted = all.map((edge, rank) => ({edge, rank}))
    .filter(({edge, rank}) => rank < LABELS || (edge.chosen && selected !== root))
    .sort((one, other) => other.edge.chosen - one.edge.chosen);
  const point = ({far, y1, y2}, t) => ({  // Of a curve, for t from 0 to 1.
    x: x + 3 * t * (1 - t) * (far - x), y: y1 + t * t * (3 - 2 * t) * (y2 - y1),
  });
  const curves = all.flatMap((edge) => FINE.map((t) => point(edge, t)));
  const taken = [];
  for (const {edge, rank} of wanted) {
    const text = bytes(edge.bytes), wide = 7 * text.length;
    const places = PLACES.map((t) => {
      const {x, y} = point(edge, t), left = x + 5, right = left + wide;
      const hit = curves.filter((at) => left < at.x && at.x < right && Math.abs(at.y - y) < 8);
      return {y, left, right, hits: hit.length};
    }).filter(({y, left, right}) => !taken.some(
      (one) => Math.abs(one.y - y) < 13 && left < one.right + 3 && one.left < right + 3));
    if (!places.length) continue;
    const best = places.reduce((one, other) => (other.hits < one.hits ? other : one));
    taken.push(best);
    groups[rank].append(drawn("text", {x: best.left, y: best.y + 4}, text));
  }
}

// Words about the chosen scope; what it or a scope in it meets counts.
function tell() {
  const scope = selected, met = new Map();
  let total = 0, tensors = 0;
  for (const one of meetings.filter((one) => touches(one, scope))) {
    total += one.bytes;
    tensors += 1;
    const verb = one.join ? "joined" : "reduced";
    const ways = inside(one.from, scope)
      ? one.to.map((end) => (inside(end, scope) ? "within" : `to ${named(shown(end))}`))
      : [`from ${named(shown(one.from))}`];
    for (const way of new Set(ways.map((way) => `${verb} ${way}`))) {
      met.set(way, (met.get(way) ?? 0) + one.bytes);
    }
  }
  const parts = [...met].sort((one, other) => other[1] - one[1]);
  const told = parts.slice(0, TOLD).map(([way, size]) => `${bytes(size)} ${way}`);
  if (parts.length > TOLD) told.push(`and ${parts.length - TOLD} more`);
  const facts = [
    named(scope), scope.line, plural(scope.operations, "operation"),
    `${short(scope.towers)} in towers`, `${short(scope.once)} once`,
    `${short(scope.updates)} in updates`,
  ];
  $("facts").textContent = facts.filter(Boolean).join(" · ");
  $("met").textContent = tensors
    ? `${bytes(total)} meet in ${plural(tensors, "tensor")}: ${told.join(" · ")}`
    : "Nothing meets here.";
  // These words stay in sight: scrolling to a box must not leave it behind them.
  document.documentElement.style.scrollPaddingBottom = `${$("detail").offsetHeight + 8}px`;
}
