// Tabs, theme, and the loop.
"use strict";

let tab = "colours";

function showTab(name) {
  tab = name;
  for (const button of document.querySelectorAll("nav button")) {
    button.setAttribute("aria-selected", String(button.dataset.tab === name));
  }
  for (const section of document.querySelectorAll(".tab")) section.hidden = section.id !== name;
  trouble("");
  if (name === "spends" && !spends.all) {
    spendsBegin();
    spendsNew(seedOf());
  }
  redraw();
}

function redraw() {
  if (tab === "colours") {
    coloursDraw();
    drawCurve();
  } else {
    spendsDraw();
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (wasm) redraw();
}

function loop(before) {
  requestAnimationFrame((now) => {
    try {
      if (tab === "colours") coloursAdvance(simulated(now - before, byId("speed")) * 1.5);
      else spendsAdvance(simulated(now - before, byId("spends-speed")) * 1.5);
      loop(now);
    } catch (error) {
      trouble(`The simulation stopped: ${error.message}. Load the page again.`);
    }
  });
}

// What the address asks for, before anything moves: so many simulated milliseconds, and double spends.
function applyAddress() {
  showTab(preset.get("tab") === "spends" ? "spends" : "colours");
  if (preset.has("paused")) {
    setRunning(false);
    spends.running = false;
    byId("spends-run").textContent = "Go on";
  }
  const ms = Number(preset.get("ms") || 0);
  if (ms && tab === "colours") {
    // As many small steps as a watcher would see, so that the history has points.
    for (let step = 0; step < 100 && colours.undecided; step++) {
      colours.undecided = wasm.grid_advance(ms / 100);
      coloursRead();
    }
    if (colours.undecided === 0) setRunning(false);
  } else if (ms) {
    if (preset.has("twice") && wasm.spends_twice(0, spends.all.nodes >> 1, spends.all.later) >= 0) spends.pairs++;
    wasm.spends_advance(ms);
    spendsRead();
  }
  redraw();
}

async function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(preset.get("theme") || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  try {
    wasm = (await WebAssembly.instantiate(await moduleBytes(), {})).instance.exports;
  } catch (error) {
    trouble(`The simulation cannot be loaded: ${error.message}.`);
    return;
  }
  coloursBegin();
  applyAddress();
  for (const button of document.querySelectorAll("nav button")) button.addEventListener("click", () => showTab(button.dataset.tab));
  addEventListener("resize", redraw);
  document.body.dataset.ready = "yes";
  loop(performance.now());
}

begin();
