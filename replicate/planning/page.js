// The page of a plan: its scopes as a tree of boxes, the keys, and the search. The edges between
// boxes, and what is told in words about the chosen scope, are in page_edges.js.
const plan = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const tree = $("tree"), svg = $("edges"), find = $("find");

// Numbers as text.

const UNITS = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]];
function short(number) {
  const [size, name] = UNITS.find(([size]) => number >= size) ?? [0, ""];
  return size ? +(number / size).toPrecision(3) + name : `${Math.round(number)}`;
}
function percent(share) {
  const number = share > 0 && share < 1e-4 ? "< 0.01" : +(100 * share).toPrecision(4);
  return `${number} %`.replaceAll(" ", "\u00a0");
}

// Scopes, and what meets between them.

const scopes = new Map();  // By path, in the order of the tree.
const root = plan.scopes;
(function index(scope, depth, parent) {
  Object.assign(scope, {depth, parent, computed: scope.towers + scope.once});
  Object.assign(scope, {words: [scope.path], lines: [scope.line]});  // What the search looks at.
  scopes.set(scope.path, scope);
  scope.children.forEach((child) => index(child, depth + 1, scope));
})(root, 0, null);

// How many letters of a name may be left out where it is too long: it begins as others do, and
// differs from the most similar one in the part, between "_", that comes then.
const names = [...new Set([...scopes.values()].map(({name}) => name))].sort();
const common = new Map(names.map((name, at) => {
  const same = [names[at - 1], names[at + 1]].map((other = "") => {
    const first = [...name].findIndex((letter, place) => letter !== other[place]);
    return first < 0 ? name.length : first;
  });
  const part = name.lastIndexOf("_", Math.max(...same) - 1) + 1 || name.length;
  const left = Math.min(part, name.length - 8);
  return [name, left < 4 ? 0 : left];
}));

// The scope of a path, or the nearest one around it.
function place(path) {
  const parts = path.split("/");
  while (parts.length && !scopes.has(parts.join("/"))) parts.pop();
  return scopes.get(parts.join("/"));
}

const named = (scope) => scope.path || "(all)";
const inside = (scope, whole) =>
  whole === root || scope === whole || scope.path.startsWith(`${whole.path}/`);
const around = (scope) => (scope ? [scope, ...around(scope.parent)] : []);

const meetings = plan.meetings.map((one) => {
  const to = (one.to.length ? one.to : [""]).map(place);
  return {...one, from: place(one.from), to, join: one.kind === "join"};
});
const ends = new Set();  // Scopes that something meets in, and all around them.
for (const one of meetings) {
  one.from.words.push(one.tensor);
  for (const end of [one.from, ...one.to]) around(end).forEach((scope) => ends.add(scope));
}
for (const one of plan.once) {
  const scope = place(one.scope);
  scope.words.push(one.operation, one.type);
  scope.lines.push(one.line);
}

// What is shown. The chosen scope always is.
let open = new Set([root]), selected = root, zoom = 1;
let found = [], kept = new Set();  // What the search has found, and all around that.
let before = null;  // What was open when it began.

const matters = (scope) => $("idle").checked || scope.computed > 0 || scope.updates > 0
  || ends.has(scope) || kept.has(scope);
const children = (scope) => scope.children.filter(matters);

function visible() {
  const rows = [];
  (function add(scope, at, siblings) {
    rows.push({scope, at, siblings});
    if (!open.has(scope)) return;
    children(scope).forEach((child, place, all) => add(child, place + 1, all.length));
  })(root, 1, 1);
  return rows;
}

// The scope itself, or the nearest one around it that is visible.
function shown(scope) {
  let nearest = scope;
  for (let at = scope; at.parent; at = at.parent) {
    if (!open.has(at.parent) || !matters(at)) nearest = at.parent;
  }
  return nearest;
}

function element(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function box({scope, at, siblings}, most) {
  const made = element("div", "row box");
  const share = scope.computed ? scope.towers / scope.computed : null;
  made.classList.toggle("idle", share === null);
  made.classList.toggle("found", found.includes(scope));
  made.style.setProperty("--depth", scope.depth);
  made.style.setProperty("--share", `${100 * share}%`);
  made.dataset.path = scope.path;
  made.title = [named(scope), scope.line].filter(Boolean).join("\n");
  const opens = children(scope).length > 0, isOpen = open.has(scope);
  const told = share === null ? "computes nothing from rows"
    : `computes ${short(scope.computed)}, ${percent(share)} in towers`;
  const says = {
    label: `${named(scope)}, ${told}`, level: scope.depth + 1, posinset: at, setsize: siblings,
    ...(opens ? {expanded: isOpen} : {}),
  };
  made.setAttribute("role", "treeitem");
  for (const [name, value] of Object.entries(says)) made.setAttribute(`aria-${name}`, value);
  const bar = element("span", "bar");
  for (const [tag, value] of [["b", scope.towers], ["u", scope.once]]) {
    bar.append(element(tag));
    bar.lastChild.style.width = `${100 * value / most}%`;
  }
  const name = element("span", "name"), text = scope.name || "(all)", same = common.get(scope.name);
  if (same) name.append(element("span", "same", text.slice(0, same)));
  name.append(element("span", "", text.slice(same)));
  made.append(
    element("span", "sign", opens ? (isOpen ? "▾" : "▸") : ""), name, bar,
    element("span", "number", share === null ? "" : short(scope.computed)),
    element("span", "number share", share === null ? "" : percent(share)));
  return made;
}

// Draws all; returns the box of the chosen scope.
function draw() {
  const rows = visible(), most = Math.max(1, ...rows.map(({scope}) => scope.computed));
  tree.replaceChildren(...rows.map((row) => box(row, most)));
  return select(shown(selected));
}

// Chooses a visible scope; returns its box.
function select(scope) {
  selected = scope;
  let chosen;
  for (const box of tree.children) {
    const isIt = box.dataset.path === scope.path;
    box.setAttribute("aria-selected", isIt);
    box.tabIndex = isIt ? 0 : -1;
    if (isIt) chosen = box;
  }
  drawEdges();
  tell();
  return chosen;
}

// Keys and buttons.

function choose(scope, toggles) {
  const changes = toggles && children(scope).length > 0;
  if (changes) open.delete(scope) || open.add(scope);
  selected = scope;
  (changes ? draw() : select(scope)).focus();
}

function scale(next) {
  zoom = Math.min(3, Math.max(0.3, next));
  $("drawing").style.setProperty("--zoom", zoom);
  $("same").textContent = `${Math.round(100 * zoom)} %`;
  drawEdges();
}

tree.addEventListener("click", (event) => {
  const box = event.target.closest(".box");
  if (box) choose(scopes.get(box.dataset.path), true);
});
tree.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = visible().map(({scope}) => scope), at = rows.indexOf(selected);
  const opens = children(selected).length > 0, isOpen = opens && open.has(selected);
  const go = {
    ArrowDown: () => choose(rows[at + 1] ?? selected),
    ArrowUp: () => choose(rows[at - 1] ?? selected),
    Home: () => choose(root), End: () => choose(rows[rows.length - 1]),
    ArrowRight: () => choose(isOpen ? children(selected)[0] : selected, opens && !isOpen),
    ArrowLeft: () => choose(isOpen ? selected : selected.parent ?? selected, isOpen),
    Enter: () => choose(selected, true), " ": () => choose(selected, true),
  }[event.key];
  if (!go) return;
  event.preventDefault();
  go();
});
document.addEventListener("keydown", (event) => {
  if (event.target === find || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    "/": () => { find.focus(); find.select(); },
    "+": () => scale(zoom * 1.2), "-": () => scale(zoom / 1.2), "0": () => scale(1),
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
document.querySelector(".scroll").addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  scale(zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
}, {passive: false});
$("in").addEventListener("click", () => scale(zoom * 1.2));
$("out").addEventListener("click", () => scale(zoom / 1.2));
$("same").addEventListener("click", () => scale(1));
$("idle").addEventListener("change", draw);
window.addEventListener("resize", drawEdges);

// The search.

function matches(scope, text) {
  // A match reaches into the last part, so that not all scopes in a scope match, too.
  const named = scope.words.some((word) => {
    const at = word.toLowerCase().lastIndexOf(text);
    return at >= 0 && at + text.length > word.lastIndexOf("/") + 1;
  });
  if (named || !/[.:]/.test(text)) return named;
  const whole = /:\d+$/.test(text);  // A line, not a file.
  return scope.lines.map((line) => line.toLowerCase())
    .some((line) => (whole ? line.endsWith(text) : line.includes(text)));
}

function show(at) {
  selected = found[at];
  $("matches").textContent = `${at + 1} of ${found.length}`;
  around(selected.parent).forEach((scope) => open.add(scope));
  draw().scrollIntoView({block: "nearest"});
}

function search() {
  const text = find.value.trim().toLowerCase();
  before ??= open;
  open = text ? new Set(before) : before;
  found = text ? [...scopes.values()].filter((scope) => matches(scope, text)) : [];
  kept = new Set(found.flatMap(around));
  found.flatMap((scope) => around(scope.parent)).forEach((scope) => open.add(scope));
  if (!text) before = null;
  if (found.length) return show(0);
  $("matches").textContent = text ? "none found" : "";
  draw();
}
find.addEventListener("input", search);
find.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    event.preventDefault();
    find.value = "";
    search();
  } else if (event.key === "Enter" && found.length) {
    const at = found.indexOf(selected), number = found.length;
    show(event.shiftKey ? (at < 1 ? number : at) - 1 : (at + 1) % number);
  }
});

// The table of what runs once.

// The text, which may be broken after each "/".
const breakable = (text) => text.split(/(?<=\/)/).flatMap((part) => [part, element("wbr")]);
for (const one of plan.once) {
  const row = element("tr"), name = element("td"), code = element("code"), line = element("td");
  code.append(...breakable(one.operation));
  name.append(code);
  line.append(...breakable(one.line));
  const why = [one.why, one.advice].filter(Boolean).join("; ");
  row.append(name, element("td", "", one.type), line,
    element("td", "number", short(one.computed)), element("td", "", why));
  $("once").append(row);
}
if (!plan.once.length) {
  const none = element("td", "", "Nothing that takes time.");
  none.colSpan = 5;
  $("once").append(element("tr"));
  $("once").lastChild.append(none);
}

// The header.

const all = percent(root.towers / root.computed), told = plan.share === null || percent(plan.share);
$("share").textContent = plan.share === null
  ? `${plan.towers} towers; nothing is computed from rows`
  : `${plan.towers} towers run ${told} of ${plan.share_of}`
    + (all === told ? "" : `, ${all} of all that is computed`);

draw();
