// The first tab: nodes that decide between red and blue.
"use strict";

const NODE = 7;
const colours = {
  numbers: null, nodes: null, all: null, running: true, undecided: 0, history: [], curve: [], hover: null, frame: 0,
};

function coloursNew(seed) {
  const form = byId("settings");
  boundQuorum(form);
  const all = numbersOf(form);
  all.nodes = all.n * all.n;
  all.faulty = Math.round((all.nodes * all.byzantine) / 100);
  colours.all = all;
  const begun = wasm.grid_new(
    all.protocol, all.nodes, all.faulty, all.adversary, all.k, all.alpha, all.beta, all.loss * 10000, all.red * 10, seed,
  );
  trouble(begun ? "" : `This cannot be run: ${said()}.`);
  for (const name of ["k", "alpha", "beta"]) document.querySelector(`.lead .${name}`).textContent = all[name];
  colours.history = [];
  colours.undecided = begun ? all.nodes - all.faulty : 0;
  setRunning(true);
  coloursRead();
  coloursCurve();
  coloursDraw();
}

function coloursRead() {
  colours.numbers = new Float64Array(wasm.memory.buffer, wasm.grid_numbers(), 9).slice();
  colours.nodes = new Int32Array(wasm.memory.buffer, wasm.grid_nodes(), colours.all.nodes * NODE).slice();
  const [ms, red, blue] = colours.numbers;
  colours.history.push([ms, red / Math.max(red + blue, 1)]);
  // Long runs keep every other point.
  if (colours.history.length > 1200) colours.history = colours.history.filter((_, at) => at % 2 === 0);
  document.body.dataset.trace = `${colours.numbers[7]}-${colours.numbers[8]}`;
  document.body.dataset.messages = colours.numbers[6];
}

function coloursAdvance(ms) {
  if (!colours.running || colours.undecided === 0) return;
  colours.undecided = wasm.grid_advance(ms);
  coloursRead();
  coloursDraw();
  if (colours.undecided === 0) setRunning(false);
}

function setRunning(running) {
  colours.running = running;
  byId("run").textContent = running ? "Pause" : colours.undecided ? "Go on" : "Run again";
}

function coloursDraw() {
  const [ms, red, blue, decidedRed, decidedBlue, undecided, messages] = colours.numbers;
  const correct = red + blue;
  byId("time").textContent = (ms / 1000).toFixed(2);
  byId("red").textContent = red;
  byId("blue").textContent = blue;
  byId("decided").textContent = `${decidedRed + decidedBlue} / ${correct}`;
  byId("messages").textContent = messages >= 1e6 ? `${(messages / 1e6).toFixed(2)} M` : messages.toLocaleString("en");
  coloursVerdict(red, blue, decidedRed, decidedBlue, undecided);
  drawGrid();
  drawHistory();
}

function coloursVerdict(red, blue, decidedRed, decidedBlue, undecided) {
  const verdict = byId("verdict");
  // An eclipsed node talked to nobody correct: it was promised nothing.
  const eclipsed = colours.all.adversary === 5 && colours.all.faulty > 0;
  const apart = Math.min(decidedRed, decidedBlue);
  verdict.className = "verdict";
  if (apart > (eclipsed ? 1 : 0)) {
    verdict.className = "verdict bad";
    verdict.textContent = `Safety is broken: ${decidedRed} nodes decided red, ${decidedBlue} blue.`;
  } else if (undecided === 0) {
    verdict.className = "verdict good";
    verdict.textContent = `All ${red + blue} correct nodes decided ${decidedRed > decidedBlue ? "red" : "blue"}`
      + (apart ? ", but for the one that was cut off." : ".");
  } else if (colours.numbers[0] > 20000 && decidedRed + decidedBlue === 0) {
    verdict.textContent = "Still in balance: the faulty nodes stall it. Nobody has decided wrongly.";
  } else {
    verdict.textContent = `${undecided} of ${red + blue} correct nodes are undecided`;
  }
}

function drawGrid() {
  const side = colours.all.n;
  const [context, width] = sized(byId("grid"), (width) => width);
  const cell = width / side;
  const gap = cell > 14 ? 2 : cell > 7 ? 1 : 0.5;
  const paint = [colourOf("red"), colourOf("blue")];
  const [faulty, ground] = [colourOf("faulty"), colourOf("card")];
  for (let at = 0; at < colours.all.nodes; at++) {
    const [colour, isFaulty, count, , , , decided] = colours.nodes.subarray(at * NODE, at * NODE + NODE);
    const place = spread(at);
    const [x, y] = [(place % side) * cell + gap, Math.floor(place / side) * cell + gap];
    const size = cell - 2 * gap;
    context.beginPath();
    if (isFaulty) {
      context.globalAlpha = 1;
      context.fillStyle = faulty;
      context.moveTo(x + size / 2, y + size * 0.12);
      context.lineTo(x + size * 0.88, y + size / 2);
      context.lineTo(x + size / 2, y + size * 0.88);
      context.lineTo(x + size * 0.12, y + size / 2);
      context.fill();
      continue;
    }
    // The nearer to a decision, the fuller the colour.
    context.globalAlpha = decided >= 0 ? 1 : 0.38 + 0.42 * Math.min(count / colours.all.beta, 1);
    context.fillStyle = paint[colour];
    context.roundRect(x, y, size, size, Math.min(size / 4, 5));
    context.fill();
    if (decided >= 0 && size > 6) {
      context.fillStyle = ground;
      context.beginPath();
      context.arc(x + size / 2, y + size / 2, Math.max(size * 0.13, 1.2), 0, 7);
      context.fill();
    }
  }
  context.globalAlpha = 1;
  if (colours.hover) drawHover(context, cell, side);
}

// Faulty nodes are the last ones; on the grid they stand among the others.
function spread(node) {
  const { nodes } = colours.all;
  let step = Math.floor(nodes * 0.618) | 1;
  while (gcd(step, nodes) !== 1) step += 2;
  return (node * step) % nodes;
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a);

function drawHover(context, cell, side) {
  const [px, py] = colours.hover;
  const tip = byId("tip");
  const place = Math.floor(py / cell) * side + Math.floor(px / cell);
  let node = 0;
  while (node < colours.all.nodes && spread(node) !== place) node++;
  if (node >= colours.all.nodes) return placeTip(tip, byId("grid"), px, py, "");
  const [colour, isFaulty, count, red, blue, polls, decided] = colours.nodes.subarray(node * NODE, node * NODE + NODE);
  const name = ["red", "blue"][colour];
  const lines = [`node ${node}${isFaulty ? ": faulty, says what hurts" : `: ${name}`}`];
  if (!isFaulty) {
    if (colours.all.protocol > 0) lines.push(`${count} of ${colours.all.beta} polls in a row`);
    if (colours.all.protocol === 2) lines.push(`confidence: red ${red}, blue ${blue}`);
    lines.push(decided >= 0 ? `decided ${name} after ${(decided / 1000).toFixed(2)} s, ${polls} polls` : `${polls} polls begun`);
  }
  const [x, y] = [(place % side) * cell, Math.floor(place / side) * cell];
  context.strokeStyle = colourOf("ink");
  context.lineWidth = 2;
  context.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
  placeTip(tip, byId("grid"), px, py, lines.join("\n"));
}

function drawHistory() {
  const [context, width, height] = sized(byId("history"), () => 96);
  const [left, right, top, bottom] = [42, width - 6, 8, height - 20];
  const last = Math.max(colours.history[colours.history.length - 1][0], 1000);
  const at = ([ms, share]) => [left + ((right - left) * ms) / last, bottom - (bottom - top) * share];
  context.fillStyle = colourOf("soft");
  context.strokeStyle = colourOf("edge");
  context.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    const y = at([0, share])[1];
    context.fillText(`${share * 100} %`, left - 5, y + 4);
    line(context, [[left, y], [right, y]]);
  }
  context.fillText(`${(last / 1000).toFixed(1)} s`, right, height - 5);
  context.textAlign = "left";
  context.fillText("share of red", left, height - 5);
  context.strokeStyle = colourOf("red");
  context.lineWidth = 2.5;
  line(context, colours.history.map(at));
  context.lineWidth = 1;
}

function line(context, points) {
  context.beginPath();
  points.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}

function coloursCurve() {
  const { nodes, k, alpha, beta } = colours.all;
  const key = [nodes, k, alpha, beta].join();
  if (colours.curveOf !== key) {
    colours.curveOf = key;
    colours.curve = [];
    for (let percent = 0; percent <= 50; percent += 2) {
      colours.curve.push([percent, wasm.failure(nodes, Math.floor((nodes * percent) / 100), k, alpha, beta)]);
    }
  }
  drawCurve();
}

const power = (log10) => (log10 > -0.05 ? "1" : `10<sup>−${(-log10).toFixed(1)}</sup>`);

function drawCurve() {
  const { nodes, faulty, k, alpha, beta, byzantine, protocol } = colours.all;
  const here = wasm.failure(nodes, faulty, k, alpha, beta);
  const known = colours.curve.filter(([, log10]) => Number.isFinite(log10));
  const least = Math.max(-120, Math.min(-10, ...known.map(([, log10]) => log10)));
  const step = least < -60 ? 20 : least < -25 ? 10 : 5;
  const low = Math.floor(least / step) * step;
  const [context, width, height] = sized(byId("curve"), () => 210);
  const [left, right, top, bottom] = [42, width - 18, 10, height - 32];
  const at = ([percent, log10]) => [
    left + ((right - left) * percent) / 50, top + (bottom - top) * (Math.max(log10, low) / low),
  ];
  context.fillStyle = colourOf("soft");
  context.strokeStyle = colourOf("edge");
  context.textAlign = "right";
  for (let log10 = 0; log10 >= low; log10 -= step) {
    const y = at([0, log10])[1];
    line(context, [[left, y], [right, y]]);
    powerText(context, log10, left - 5, y + 4);
  }
  context.textAlign = "center";
  for (let percent = 0; percent <= 50; percent += 10) context.fillText(`${percent} %`, at([percent, 0])[0], bottom + 14);
  context.fillText("faulty nodes", (left + right) / 2, height - 4);
  context.lineWidth = 2.5;
  context.strokeStyle = colourOf("a");
  context.setLineDash([5, 4]);
  const bitcoin = Array.from({ length: 50 }, (_, at) => [at + 1, wasm.bitcoin((at + 1) / 100)]);
  line(context, bitcoin.map(at));
  context.setLineDash([]);
  context.strokeStyle = colourOf("accent");
  line(context, known.map(at));
  context.lineWidth = 1;
  if (Number.isFinite(here) && protocol > 0) {
    context.fillStyle = colourOf("danger");
    context.beginPath();
    context.arc(...at([byzantine, here]), 5, 0, 7);
    context.fill();
  }
  const polls = wasm.expected_polls(nodes, k, alpha, beta);
  // Numbers alone are put in.
  byId("bound").innerHTML = protocol === 0
    ? "Slush promises nothing with faulty nodes: the curve is that of Snowflake and Snowball."
    : `With ${byzantine} % faulty nodes, two correct nodes decide differently with a probability of at most ${power(here)}. `
      + (Number.isFinite(polls) ? `Without faulty nodes, a node needs about ${polls.toFixed(0)} polls.` : "");
}

function powerText(context, log10, x, y) {
  if (log10 === 0) return context.fillText("1", x, y);
  const font = context.font;
  context.font = "9px system-ui, 'DejaVu Sans', sans-serif";
  const raised = `−${-log10}`;
  context.fillText(raised, x, y - 4);
  const away = context.measureText(raised).width;
  context.font = font;
  context.fillText("10", x - away - 1, y);
}

function coloursBegin() {
  const form = byId("settings");
  applyPreset(form);
  form.addEventListener("input", () => coloursNew(seedOf()));
  byId("again").addEventListener("click", () => coloursNew(seedOf()));
  byId("run").addEventListener("click", () => {
    if (colours.undecided === 0) coloursNew(seedOf());
    else setRunning(!colours.running);
  });
  const grid = byId("grid");
  grid.addEventListener("pointermove", (event) => {
    colours.hover = [event.offsetX, event.offsetY];
    drawGrid();
  });
  grid.addEventListener("pointerleave", () => {
    colours.hover = null;
    byId("tip").hidden = true;
    drawGrid();
  });
  coloursNew(seedOf());
}
