"use strict";
// Asks the replica that served this page, and draws. Whatever came over the network is put on the page as text.

const SOON = 2000;
const SELDOM = 5000;
const byId = (id) => document.getElementById(id);
const make = (name, text, kind) => {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const count = (n) => Number(n).toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });
const ms = (n) => (n === null || n === undefined ? "–" : `${n < 10 ? n.toFixed(1) : Math.round(n)} ms`);
const mib = (bytes) => `${count(bytes / 1048576)} MiB`;
// Golden angle: neighbours are told apart however many replicas there are.
const colour = (id) => (id === null ? "var(--soft)" : `hsl(${(id * 137.5 + 210) % 360} 60% 52%)`);

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(4000) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function head(status) {
  document.title = `${status.ready ? "" : "⚠ "}replica ${status.replica} · ${status.chain}`;
  byId("who").textContent = `replica ${status.replica} of ${status.replicas}`;
  const state = byId("state");
  const fallen = status.details?.in_fallback ? "ready, in the fallback" : "ready";
  const special = status.rejoining ? "rejoining" : status.abstaining ? "ready, abstaining" : fallen;
  state.textContent = status.ready ? special : "not ready";
  state.className = `state ${status.ready ? "good" : "bad"}`;
  byId("about").textContent =
    `chain ${status.chain} · ${status.protocol} · ${status.application} · version ${status.version} · process ${status.process}`;
}

function warnings(list) {
  const rows = list.map((one) => {
    const row = make("li", undefined, one.level);
    row.append(make("b", one.name), one.what, make("i", one.remedy));
    return row;
  });
  if (rows.length === 0) rows.push(make("li", "Nothing is wrong that this replica can see.", "good"));
  byId("warnings").replaceChildren(...rows);
}

function tiles(status, history) {
  const last = (name) => (history[name].length ? history[name][history[name].length - 1] : null);
  const shown = [
    ["commands/s", last("commands_per_s") === null ? "–" : count(last("commands_per_s"))],
    ["answered: p50", ms(last("p50_ms"))],
    ["answered: p99", ms(last("p99_ms"))],
    ["committed height", count(status.committed_height)],
    ["view", count(status.view)],
    ["leader", String(status.leader)],
    ["frames that wait", count(status.mempool.frames)],
    ["clients", count(status.clients)],
    ["log", mib(status.log_bytes)],
    ["state", mib(status.state.bytes)],
  ];
  byId("tiles").replaceChildren(...shown.map(([name, value]) => {
    const tile = make("div");
    tile.append(make("span", name), make("strong", value));
    return tile;
  }));
}

function replicas(status, blocks) {
  const voted = blocks.filter((block) => block.voters.length > 0);
  const rows = Array.from({ length: status.replicas }, (_, id) => {
    const row = make("tr");
    const name = make("td");
    const swatch = make("span", "", "swatch");
    swatch.style.background = colour(id);
    name.append(swatch, id === status.replica ? `${id} (this one)` : String(id));
    const open = id === status.replica || status.peers.includes(id);
    const led = blocks.filter((block) => block.proposer === id).length;
    const votes = voted.filter((block) => block.voters.includes(id)).length;
    const share = make("meter");
    share.max = Math.max(voted.length, 1);
    share.value = votes;
    share.title = `${votes} of ${voted.length}`;
    const bar = make("td", undefined, "bar");
    bar.append(share);
    row.append(name, make("td", open ? "open" : "none"), make("td", led), make("td", votes), bar);
    return row;
  });
  byId("replicas").tBodies[0].replaceChildren(...rows);
  byId("of-blocks").textContent =
    `Of the last ${blocks.length} blocks. A certificate shows the first votes that made a quorum: ` +
    "a replica without any is slow, abstains, or is faulty.";
}

function chain(blocks) {
  const most = Math.max(1, ...blocks.map((block) => block.frames));
  byId("chain").replaceChildren(...blocks.slice(-100).map((block) => {
    const bar = make("button");
    bar.type = "button";
    bar.style.background = colour(block.proposer);
    bar.style.height = `${8 + 76 * (block.frames / most)}px`;
    const votes = block.voters.length ? `votes of ${block.voters.join(", ")}` : "votes not shown";
    const by = block.proposer === null ? "" : `, proposed by ${block.proposer}`;
    const at = new Date(block.committed_ms).toLocaleTimeString();
    const text = `height ${block.height}, view ${block.view}${by}, ${block.frames} frames, ${votes}, committed at ${at}`;
    bar.setAttribute("aria-label", text);
    const tell = () => { byId("block").textContent = text; };
    bar.addEventListener("pointerenter", tell);
    bar.addEventListener("focus", tell);
    return bar;
  }));
}

const CHARTS = [
  ["commands a second", ["commands_per_s"], count],
  ["time to the answer: p50 and p99", ["p50_ms", "p99_ms"], ms],
  ["frames that wait", ["waiting"], count],
  ["views given up in five seconds", ["timeouts"], count],
  ["open channels to peers", ["peers"], count],
  ["mean time of a sync of the log", ["sync_ms"], ms],
];

function chart(title, columns, unit, history) {
  const svgOf = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);
  const svg = svgOf("svg");
  const most = Math.max(1e-9, ...columns.flatMap((name) => history[name].filter((y) => y !== null)));
  const length = Math.max(2, history.unix_s.length);
  svg.setAttribute("viewBox", "0 0 720 100");
  svg.setAttribute("preserveAspectRatio", "none");
  const ground = svgOf("line");
  for (const [name, value] of [["x1", 0], ["x2", 720], ["y1", 99], ["y2", 99]]) ground.setAttribute(name, value);
  svg.append(ground);
  columns.forEach((name, which) => {
    let pen = false;
    const points = history[name].map((y, at) => {
      if (y === null) { pen = false; return ""; }
      const step = `${pen ? "L" : "M"}${(720 * at / (length - 1)).toFixed(1)} ${(99 - 95 * y / most).toFixed(1)}`;
      pen = true;
      return step;
    });
    const path = svgOf("path");
    path.setAttribute("d", points.join(""));
    if (which) path.setAttribute("class", "second");
    svg.append(path);
  });
  const figure = make("figure");
  const minutes = Math.round(history.unix_s.length * history.every_s / 60);
  figure.append(svg, make("figcaption", `${title} · at most ${unit(most > 1e-6 ? most : 0)} · ${minutes} min`));
  return figure;
}

let before = null;
function stages(profile) {
  const now = { at: performance.now(), stages: profile.stages };
  if (before) {
    const seconds = (now.at - before.at) / 1000;
    const rows = Object.entries(profile.stages).sort().map(([name, stage]) => {
      const old = before.stages[name] ?? stage;
      const busy = (stage.sum_ns - old.sum_ns) / 1e9 / seconds / Math.max(1, stage.threads);
      const row = make("tr");
      const meter = make("meter");
      meter.value = Math.min(1, busy);
      const bar = make("td", undefined, "bar");
      bar.append(meter);
      row.append(make("td", name), make("td", stage.threads), make("td", `${(100 * busy).toFixed(1)} %`),
        make("td", count((stage.items - old.items) / seconds)), bar);
      return row;
    });
    byId("stages").tBodies[0].replaceChildren(...rows);
  }
  before = now;
}

let history = null;
async function often() {
  try {
    const [status, blocks] = await Promise.all([ask("status"), ask("blocks")]);
    history ??= await ask("history");
    head(status);
    warnings(status.warnings);
    tiles(status, history);
    replicas(status, blocks.blocks);
    chain(blocks.blocks);
  } catch (error) {
    const state = byId("state");
    state.textContent = "does not answer";
    state.className = "state bad";
    warnings([{ name: "unreachable", level: "critical", what: `this page gets no answer: ${error.message}`,
      remedy: "see that the process runs: quorate status" }]);
  }
  setTimeout(often, SOON);
}

async function seldom() {
  try {
    history = await ask("history");
    byId("charts").replaceChildren(...CHARTS.map((one) => chart(...one, history)));
    stages(await ask("profile"));
  } catch { /* The other loop says it. */ }
  setTimeout(seldom, SELDOM);
}

often();
seldom();
