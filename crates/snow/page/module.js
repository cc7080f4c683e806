// The module, and what both tabs share.
"use strict";

const byId = (id) => document.getElementById(id);
const decoder = new TextDecoder();
let wasm = null;

/** Bytes of the module: from the page itself, or from beside it. */
async function moduleBytes() {
  const inline = byId("module");
  if (!inline) return (await fetch("snow.wasm")).arrayBuffer();
  const text = atob(inline.textContent.trim());
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

const said = () =>
  decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.message_address(), wasm.message_length()));

/** Shows a sentence in red; none: hides it. */
function trouble(sentence) {
  byId("trouble").hidden = !sentence;
  byId("trouble").textContent = sentence || "";
}

// The address's fragment presets anything by its name, as in #tab=spends&k=12&ms=900&paused=1.
const preset = new URLSearchParams(location.hash.slice(1));

const showAs = {
  percent: (value) => `${value} %`,
  square: (value) => value * value,
  ms: (value) => `${value} ms`,
};

/** The numbers of a form, by their names; writes them beside the sliders. */
function numbersOf(form) {
  const numbers = {};
  for (const field of form.elements) {
    if (!field.name) continue;
    numbers[field.name] = Number(field.value);
    const told = field.closest("label").querySelector("output");
    if (told) told.textContent = (showAs[field.dataset.show] || String)(field.value);
  }
  return numbers;
}

/** Keeps α above half of k, and at most k. */
function boundQuorum(form) {
  const { k, alpha } = form.elements;
  alpha.min = Math.floor(Number(k.value) / 2) + 1;
  alpha.max = k.value;
}

function applyPreset(form) {
  for (const field of form.elements) {
    if (field.name === "k" && preset.has("k")) field.value = preset.get("k");
  }
  boundQuorum(form);
  for (const field of form.elements) {
    if (field.name && preset.has(field.name)) field.value = preset.get(field.name);
  }
}

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A canvas of this height in CSS pixels, sharp on any screen: [context, width, height]. */
function sized(canvas, heightOf) {
  const width = Math.max(canvas.clientWidth, 50);
  const height = heightOf(width);
  const sharp = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  return [context, width, height];
}

/** Puts a tip beside the pointer, within its canvas. */
function placeTip(tip, canvas, x, y, text) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const left = x + 16 + tip.offsetWidth > canvas.clientWidth ? x - tip.offsetWidth - 12 : x + 16;
  tip.style.left = `${canvas.offsetLeft + Math.max(0, left)}px`;
  tip.style.top = `${canvas.offsetTop + Math.max(0, y - tip.offsetHeight / 2)}px`;
}

/** Simulated milliseconds for a frame that took so many real ones. */
const simulated = (real, slider) => (Math.min(real, 60) * Number(slider.value)) / 20;

const seedOf = () => (preset.has("seed") ? Number(preset.get("seed")) : Math.floor(Math.random() * 2 ** 31));
