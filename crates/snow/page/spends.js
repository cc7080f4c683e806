// The second tab: Avalanche's graph of payments, and a double spend.
"use strict";

const VERTEX = 11;
const STATES = ["not heard of", "pending, preferred", "pending, not preferred", "accepted", "rejected"];
const spends = {
  all: null, vertices: null, count: 0, pairs: 0, running: true, lanes: [], laneOf: [], look: 0, hover: null, begun: false,
};
const LANES = 9;
// Simulated milliseconds that the picture shows.
const SPAN = 6000;

function spendsNew(seed) {
  const form = byId("spend-settings");
  boundQuorum(form);
  const { early, beta, look, nodes } = form.elements;
  beta.min = early.value;
  look.max = nodes.value - 1;
  const all = numbersOf(form);
  all.faulty = Math.round((all.nodes * all.byzantine) / 100);
  spends.all = all;
  const begun = wasm.spends_new(
    all.nodes, all.faulty, all.adversary, all.k, all.alpha, all.early, all.beta, all.rate, seed,
  );
  trouble(begun ? "" : `This cannot be run: ${said()}.`);
  Object.assign(spends, { begun: Boolean(begun), pairs: 0, lanes: Array(LANES).fill(-1e9), laneOf: [], seed });
  wasm.spends_look(all.look);
  byId("pair").replaceChildren(...Array.from({ length: all.nodes }, (_, node) => nodeButton(node)));
  if (begun) wasm.spends_advance(5000);
  spendsRead();
  spendsDraw();
}

function nodeButton(node) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = node;
  button.addEventListener("click", () => {
    byId("spend-settings").elements.look.value = node;
    lookAt(node);
  });
  return button;
}

function lookAt(node) {
  numbersOf(byId("spend-settings"));
  spends.all.look = node;
  wasm.spends_look(node);
  spendsRead();
  spendsDraw();
}

function spendsRead() {
  spends.count = wasm.spends_advance(0);
  spends.vertices = new Int32Array(wasm.memory.buffer, wasm.spends_vertices(), spends.count * VERTEX).slice();
  for (let at = spends.laneOf.length; at < spends.count; at++) spends.laneOf.push(laneFor(at));
  document.body.dataset.vertices = spends.count;
}

const vertex = (at) => spends.vertices.subarray(at * VERTEX, at * VERTEX + VERTEX);

// A lane near the parents', where the last circle is far enough away.
function laneFor(at) {
  const [, added, , , , , parents, ...places] = vertex(at);
  const near = places.slice(0, parents).map((place) => spends.laneOf[place]);
  const wanted = near.length ? near.reduce((sum, lane) => sum + lane, 0) / near.length : (LANES - 1) / 2;
  let [best, least] = [0, Infinity];
  for (let lane = 0; lane < LANES; lane++) {
    const crowd = Math.max(0, 420 - (added - spends.lanes[lane])) / 60;
    const cost = crowd + Math.abs(lane - wanted) * 0.5 + ((at * 7 + lane * 5) % 11) / 7;
    if (cost < least) [best, least] = [lane, cost];
  }
  spends.lanes[best] = added;
  return best;
}

function spendsAdvance(ms) {
  if (!spends.running || !spends.begun) return;
  wasm.spends_advance(ms);
  spendsRead();
  spendsDraw();
}

function spendTwice() {
  const correct = spends.all.nodes - spends.all.faulty;
  const here = Math.floor(Math.random() * correct);
  const there = (here + 1 + Math.floor(Math.random() * Math.max(correct - 1, 1))) % correct;
  spends.at = [here, there];
  if (wasm.spends_twice(here, there, spends.all.later) >= 0) spends.pairs++;
  spendsRead();
  spendsDraw();
}

const place = (at, width, height, now) => [
  width - 26 - ((now - vertex(at)[1]) / SPAN) * (width - 40),
  18 + ((height - 36) * spends.laneOf[at]) / (LANES - 1),
];

function spendsDraw() {
  const now = wasm.spends_now();
  const [context, width, height] = sized(byId("dag"), (width) => (width < 500 ? 300 : 380));
  const first = firstShown(now);
  const at = (index) => place(index, width, height, now);
  drawEdges(context, at, first);
  drawRivals(context, at, first);
  for (let index = first; index < spends.count; index++) drawVertex(context, at(index), vertex(index));
  if (spends.hover) drawVertexHover(context, at, first);
  drawPair();
}

function firstShown(now) {
  let first = spends.count;
  while (first > 0 && now - vertex(first - 1)[1] < SPAN + 600) first--;
  return first;
}

function drawEdges(context, at, first) {
  context.lineWidth = 1;
  context.strokeStyle = colourOf("none");
  for (let index = first; index < spends.count; index++) {
    const [, , , , , , parents, ...places] = vertex(index);
    const [x, y] = at(index);
    for (const parent of places.slice(0, parents)) {
      const [px, py] = at(parent);
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo((x + px) / 2, y, (x + px) / 2, py, px, py);
      context.stroke();
    }
  }
}

// The two spends of one output, with a dashed line between them.
function drawRivals(context, at, first) {
  const found = new Map();
  for (let index = first; index < spends.count; index++) {
    const which = vertex(index)[5];
    if (which && !found.has(which)) found.set(which, index);
  }
  context.strokeStyle = colourOf("danger");
  context.setLineDash([5, 4]);
  context.lineWidth = 2;
  for (const [which, index] of found) {
    const other = found.get(which + 1);
    if (which % 2 === 1 && other !== undefined) line(context, [at(index), at(other)]);
  }
  context.setLineDash([]);
}

function drawVertex(context, [x, y], [payment, , state, , count, which]) {
  const rival = which > 0;
  const own = rival ? colourOf(which % 2 ? "a" : "b") : colourOf("accent");
  const radius = payment < 0 ? 4 : rival ? 12 : 8;
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fillStyle = colourOf("card");
  context.fill();
  context.globalAlpha = state === 0 ? 0.3 : 1;
  if (state === 3) {
    context.fillStyle = rival ? own : payment < 0 ? colourOf("soft") : colourOf("ok");
    context.fill();
  } else if (state === 4) {
    context.fillStyle = colourOf("none");
    context.fill();
  } else {
    context.lineWidth = payment < 0 ? 1.5 : 2;
    context.strokeStyle = payment < 0 ? colourOf("soft") : colourOf("none");
    context.stroke();
    const needed = rival ? spends.all.beta : spends.all.early;
    if (payment >= 0 && state === 1) {
      context.beginPath();
      context.lineWidth = 3.5;
      context.strokeStyle = own;
      context.arc(x, y, radius, -Math.PI / 2, -Math.PI / 2 + 6.2832 * Math.min(1, (count + 0.5) / needed));
      context.stroke();
    }
  }
  context.globalAlpha = 1;
  if (rival) {
    context.fillStyle = state === 3 ? "#fff" : state === 4 ? colourOf("soft") : own;
    context.textAlign = "center";
    context.fillText(which % 2 ? "1st" : "2nd", x, y + 4);
  }
  context.lineWidth = 1;
}

function drawVertexHover(context, at, first) {
  const [px, py] = spends.hover;
  const [tip, canvas] = [byId("dag-tip"), byId("dag")];
  let best = -1;
  for (let index = first; index < spends.count; index++) {
    const [x, y] = at(index);
    if (Math.hypot(x - px, y - py) < 14) best = index;
  }
  if (best < 0) return placeTip(tip, canvas, px, py, "");
  const [payment, added, state, confidence, count, which, parents] = vertex(best);
  const name = payment < 0 ? "no-op" : which ? `${which % 2 ? "first" : "second"} spend (payment ${payment})` : `payment ${payment}`;
  context.strokeStyle = colourOf("ink");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(...at(best), 15, 0, 7);
  context.stroke();
  placeTip(tip, canvas, px, py, [
    name, STATES[state], `confidence ${confidence}, ${count} polls in a row`,
    `${parents} parents, issued at ${(added / 1000).toFixed(2)} s`,
  ].join("\n"));
}

function drawPair() {
  const { nodes, faulty, look } = spends.all;
  const buttons = byId("pair").children;
  const counts = { "for-a": 0, "for-b": 0, "got-a": 0, "got-b": 0 };
  const address = spends.pairs ? wasm.spends_leanings(spends.pairs - 1) : 0;
  const leanings = spends.pairs ? new Uint8Array(wasm.memory.buffer, address, nodes * 2) : new Uint8Array(nodes * 2);
  for (let node = 0; node < nodes; node++) {
    const [one, two] = [leanings[node], leanings[nodes + node]];
    const lean = one === 3 ? "got-a" : two === 3 ? "got-b" : one === 2 ? "for-a" : two === 2 ? "for-b" : "";
    if (lean && node < nodes - faulty) counts[lean]++;
    const faultyOne = node >= nodes - faulty;
    buttons[node].className = [lean, faultyOne ? "faulty" : "", node === look ? "looked" : ""].join(" ").trim();
    buttons[node].title = `node ${node}${faultyOne ? ", faulty" : ""}: look through its eyes`;
  }
  byId("pair-title").textContent = spends.pairs ? pairTitle(counts, nodes - faulty) : "The nodes: spend an output twice, and see how they lean";
  document.body.dataset.leanings = JSON.stringify(counts);
  byId("why").textContent = whyText();
}

function pairTitle(counts, correct) {
  if (wasm.spends_unsafe()) return "Safety is broken: both spends were accepted";
  for (const [key, name] of [["got-a", "first"], ["got-b", "second"]]) {
    if (counts[key] === correct) return `All ${correct} correct nodes accepted the ${name} spend; the other one is rejected`;
  }
  const [one, two] = [counts["for-a"] + counts["got-a"], counts["for-b"] + counts["got-b"]];
  return `${one} nodes for the first spend, ${two} for the second; accepted by ${counts["got-a"] + counts["got-b"]}`;
}

function whyText() {
  if (!spends.pairs) return `Node ${spends.all.look} is outlined: the graph is as it sees it.`;
  const told = [0, 1].map((which) => {
    const name = ["First", "Second"][which];
    return wasm.spends_why(spends.pairs - 1, which) ? `${name} spend: pending at node ${spends.all.look}; ${said()}.` : "";
  });
  return told.filter(Boolean).join(" ") || `Nothing of it is pending at node ${spends.all.look}.`;
}

function spendsBegin() {
  const form = byId("spend-settings");
  applyPreset(form);
  form.addEventListener("input", (event) => {
    const all = numbersOf(form);
    switch (event.target.name) {
      case "later": spends.all.later = all.later; break;
      case "rate": wasm.spends_rate(all.rate); break;
      case "look": lookAt(all.look); break;
      default: spendsNew(seedOf());
    }
  });
  byId("twice").addEventListener("click", spendTwice);
  byId("spends-again").addEventListener("click", () => spendsNew(seedOf()));
  byId("spends-run").addEventListener("click", () => {
    spends.running = !spends.running;
    byId("spends-run").textContent = spends.running ? "Pause" : "Go on";
  });
  const canvas = byId("dag");
  canvas.addEventListener("pointermove", (event) => {
    spends.hover = [event.offsetX, event.offsetY];
    spendsDraw();
  });
  canvas.addEventListener("pointerleave", () => {
    spends.hover = null;
    byId("dag-tip").hidden = true;
    spendsDraw();
  });
}
