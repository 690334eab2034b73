"use strict";
/* The page works without this script.  With it, readers run the exported model on rows they change,
   open the examples behind the figures, and choose what to reject.  Text goes into the page as text
   only, never as markup. */

// -- numbers ------------------------------------------------------------------------------------

/* Tables travel as float32, zlib, base64 (see playground.py). */
async function unpacked(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  if (typeof value.data === "string") {
    const bytes = Uint8Array.from(atob(value.data), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return { shape: value.shape, values: new Float32Array(await new Response(plain).arrayBuffer()) };
  }
  const out = {};
  for (const [name, part] of Object.entries(value)) out[name] = await unpacked(part);
  return out;
}

const rowOf = (table, i) => table.values.subarray(i * table.shape[1], (i + 1) * table.shape[1]);

/* z = (x - shift) * scale, perhaps limited. */
function scaled(model, x) {
  const z = Float64Array.from(x), by = model.scaler;
  if (!by) return z;
  for (let j = 0; j < z.length; j++) {
    z[j] = (x[j] - by.shift.values[j]) * by.scale.values[j];
    if (by.low) z[j] = Math.min(Math.max(z[j], by.low.values[j]), by.high.values[j]);
  }
  return z;
}

function dot(a, b) {
  let sum = 0;
  for (let j = 0; j < a.length; j++) sum += a[j] * b[j];
  return sum;
}

function kernelValue(model, v, z) {
  if (model.kernel === "rbf") {
    let square = 0;
    for (let j = 0; j < z.length; j++) square += (z[j] - v[j]) ** 2;
    return Math.exp(-model.gamma * square);
  }
  const inner = model.gamma * dot(v, z) + model.coef0;
  return model.kernel === "poly" ? inner ** model.degree : Math.tanh(inner);
}

/* Scores of prototypes and classes, the winner with its lead, and the two prototypes compared. */
function evaluate(model, x) {
  const z = scaled(model, x), R = model.intercepts.length;
  const f = Float64Array.from(model.intercepts);
  let kernel = null;
  if (model.coefficients) {
    kernel = new Float64Array(model.vectors.shape[0]);
    for (let i = 0; i < kernel.length; i++) {
      kernel[i] = kernelValue(model, rowOf(model.vectors, i), z);
      const tau = rowOf(model.coefficients, i);
      for (let r = 0; r < R; r++) f[r] += kernel[i] * tau[r];
    }
  } else {
    for (let r = 0; r < R; r++) f[r] += dot(rowOf(model.vectors, r), z);
  }
  const scores = new Array(model.n_classes).fill(-Infinity), best = new Array(model.n_classes).fill(-1);
  if (R === 1 && model.n_classes === 2) scores[0] = 0; // kept as the difference of two prototypes
  model.prototype_class.forEach((c, r) => {
    if (f[r] > scores[c]) [scores[c], best[c]] = [f[r], r];
  });
  if (R === 1 && model.n_classes === 2) [scores[1], best[1]] = [f[0], 0];
  if (model.n_classes === 2) [scores[0], scores[1]] = [0, scores[1] - scores[0]];
  const order = scores.map((_, c) => c).sort((a, b) => scores[b] - scores[a] || a - b);
  const [winner, rival] = order;
  return { z, kernel, scores, order, winner, rival, lead: scores[winner] - scores[rival],
    prototype: best[winner], other: best[rival] };
}

/* What every feature, or every support vector of a kernel, adds to the lead; -1 is a zero vector. */
function contributions(model, found) {
  const { prototype: r, other: s } = found;
  const b = (at) => (at < 0 ? 0 : model.intercepts[at]);
  const n = model.coefficients ? found.kernel.length : found.z.length;
  const parts = new Float64Array(n);
  for (let j = 0; j < n; j++) {
    const weight = (at) => {
      if (at < 0) return 0;
      return model.coefficients ? rowOf(model.coefficients, j)[at] : rowOf(model.vectors, at)[j];
    };
    parts[j] = (weight(r) - weight(s)) * (model.coefficients ? found.kernel[j] : found.z[j]);
  }
  return { parts, constant: b(r) - b(s) };
}

/* softmax(scores / temperature), where the model has probabilities. */
function probabilities(model, scores) {
  if (!model.temperature) return null;
  const most = Math.max(...scores);
  const shares = scores.map((score) => Math.exp((score - most) / model.temperature));
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((share) => share / sum);
}

function figure(value) {
  if (value === 0) return "0";
  const text = Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3
    ? value.toExponential(2) : String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

// -- building the page --------------------------------------------------------------------------

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [kind, act] of Object.entries(value)) node.addEventListener(kind, act);
    else if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/* Values in [0, 1] as ink, or in [-1, 1] as blue and orange, one pixel each. */
function paint(canvas, values, [height, width], low, high, isSigned = false) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let j = 0; j < values.length; j++) {
    const share = Math.min(Math.max((values[j] - low) / (high - low || 1), 0), 1);
    const colour = isSigned
      ? values[j] < 0 ? [217, 99, 13, 255 * Math.abs(values[j]) / (high || 1)]
        : [31, 131, 196, 255 * values[j] / (high || 1)]
      : [255 * (1 - share), 255 * (1 - share), 255 * (1 - share), 255];
    image.data.set(colour, 4 * j);
  }
  context.putImageData(image, 0, 0);
}

class Play {
  constructor(data) {
    this.data = data;
    this.rows = data.examples.rows;
    this.model = data.model;
    const features = data.features;
    if (this.rows && features) {
      this.low = Math.min(...features.low.values);
      this.high = Math.max(...features.high.values);
    }
  }

  label(k) { return this.data.labels[k]; }

  /* Examples as cards; each can be tried where the model runs. */
  gallery(panel, title, which) {
    const shown = which.map((i) => {
      const { name, true: own, predicted } = this.data.examples;
      const card = make("li");
      if (this.data.shape && this.rows) {
        const canvas = make("canvas", { class: "pixels ink", role: "img",
          "aria-label": `Example in row ${name[i]}` });
        paint(canvas, rowOf(this.rows, i), this.data.shape, this.low, this.high);
        card.append(canvas);
      }
      const taken = own[i] === predicted[i] ? ", recognised" : ` taken for ${this.label(predicted[i])}`;
      card.append(make("b", {}, this.label(own[i])), taken, make("br"),
        make("span", { class: "soft" }, `row ${name[i]}`));
      if (this.model) {
        const found = evaluate(this.model, rowOf(this.rows, i));
        card.append(make("span", { class: "soft" }, `, leads by ${figure(found.lead)}`), make("br"),
          make("button", { type: "button", on: { click: () => this.show(i, true) } }, "Try it"));
      }
      return card;
    });
    const close = make("button", { type: "button", on: { click: () => { panel.hidden = true; } } }, "Close");
    const none = make("p", { class: "note" }, "None of these examples is kept in this page.");
    panel.replaceChildren(make("h3", {}, title),
      shown.length ? make("ul", { class: "hard" }, ...shown) : none, close);
    panel.hidden = false;
    panel.scrollIntoView({ block: "nearest" });
  }

  /* Figures that open their examples: cells of the confusion matrix, and prototypes. */
  open() {
    const { true: own, predicted, winner } = this.data.examples;
    const all = own.map((_, i) => i);
    for (const cell of document.querySelectorAll("[data-cell]")) {
      const [a, b] = cell.dataset.cell.split(",").map(Number);
      this.opens(cell, byId("cell-examples"),
        a === b ? `${this.label(a)}, recognised` : `${this.label(a)} taken for ${this.label(b)}`,
        all.filter((i) => own[i] === a && predicted[i] === b));
    }
    if (!winner) return;
    for (const place of document.querySelectorAll("[data-prototype]")) {
      const r = Number(place.dataset.prototype);
      this.opens(place, byId("prototype-examples"), `Examples that prototype ${r} wins`,
        all.filter((i) => winner[i] === r));
    }
  }

  opens(place, panel, title, which) {
    const button = make("button", { type: "button", class: "opens", title: `Show: ${title}`,
      on: { click: () => this.gallery(panel, title, which) } });
    button.append(...place.childNodes);
    place.append(button);
  }

  // -- what if ----------------------------------------------------------------------------------

  start() {
    if (!this.model || !this.data.features) return;
    const { name, true: own } = this.data.examples;
    const choose = byId("play-example");
    name.forEach((text, i) => choose.append(make("option", { value: i }, `row ${text}: ${this.label(own[i])}`)));
    choose.addEventListener("change", () => this.show(Number(choose.value)));
    byId("play-reset").addEventListener("click", () => this.show(this.at));
    if (this.data.shape) this.makePad();
    else if (this.data.features.table) this.makeColumns();
    else this.makeSliders();
    byId("play").hidden = false;
    for (const link of document.querySelectorAll("[data-needs=play]")) link.hidden = false;
    this.show(0);
  }

  makeSliders() {
    const { name, low, high, whole, sliders } = this.data.features;
    this.sliders = sliders.map((j) => {
      const input = make("input", { type: "range", min: low.values[j], max: high.values[j],
        step: whole[j] ? 1 : "any", on: { input: () => {
          this.x[j] = Number(input.value);
          this.answer();
        } } });
      const output = make("output");
      const title = name ? name[j] : `feature ${j}`;
      byId("play-inputs").append(make("label", {}, make("span", { title }, title), input, output));
      return { j, input, output };
    });
    if (sliders.length < this.rows.shape[1]) {
      byId("play-inputs").append(make("p", { class: "note" },
        `The ${sliders.length} of ${this.rows.shape[1]} features that can move the scores most; the others stay.`));
    }
  }

  /* Columns of a raw table: a slider for a number or a date, a choice for a category. */
  makeColumns() {
    const { inputs, left } = this.data.features.table;
    this.columns = inputs.map((column) => {
      const change = () => {
        const { feature, features, shift, scale, gap } = column;
        if (features) features.forEach((j, k) => { this.x[j] = k === Number(input.value) ? 1 : 0; });
        else this.x[feature] = (Number(input.value) - shift) * scale;
        if (gap) this.x[gap.feature] = gap.no;
        this.answer();
      };
      const input = column.features
        ? make("select", { on: { change } }, make("option", { value: -1 }, "(unknown)"),
          ...column.values.map((text, k) => make("option", { value: k }, text)))
        : make("input", { type: "range", min: column.low, max: column.high,
          step: column.whole ? 1 : "any", on: { input: change } });
      const output = make("output");
      const title = column.name;
      byId("play-inputs").append(make("label", {}, make("span", { title }, title), input, output));
      return { column, input, output };
    });
    if (left) {
      byId("play-inputs").append(make("p", { class: "note" },
        `${left} more ${left > 1 ? "columns stay as they are" : "column stays as it is"} (free text, or beyond the fortieth).`));
    }
  }

  showColumns() {
    for (const { column, input, output } of this.columns) {
      if (column.features) {
        input.value = String(column.features.findIndex((j) => this.x[j] > 0.5));
        continue;
      }
      const { feature, shift, scale, gap, kind, whole } = column;
      let value = this.x[feature] / scale + shift;
      if (whole) value = Math.round(value);
      input.value = value;
      const isMissing = gap && Math.abs(this.x[gap.feature] - gap.yes) < Math.abs(this.x[gap.feature] - gap.no);
      output.textContent = isMissing ? "missing"
        : kind === "date" ? new Date(864e5 * Math.round(value)).toISOString().slice(0, 10) : figure(value);
    }
  }

  makePad() {
    const pad = this.pad = make("canvas", { class: "pixels ink pad", role: "img",
      "aria-label": "Drawing pad: draw with pointer or finger" });
    const erase = make("input", { type: "checkbox" });
    const clear = make("button", { type: "button", on: { click: () => {
      this.x.fill(this.low);
      this.answer();
    } } }, "Empty pad");
    const draw = (event) => {
      if (!(event.buttons & 1)) return;
      const [height, width] = this.data.shape, box = pad.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * width - 0.5;
      const y = (event.clientY - box.top) / box.height * height - 0.5;
      const reach = Math.max(0.8, Math.min(height, width) / 16);
      for (let j = 0; j < this.x.length; j++) {
        const away = Math.hypot(j % width - x, Math.floor(j / width) - y) / reach;
        const ink = Math.min(Math.max(1.5 - away, 0), 1);
        const share = (this.x[j] - this.low) / (this.high - this.low || 1);
        const value = erase.checked ? Math.min(share, 1 - ink) : Math.max(share, ink);
        this.x[j] = this.low + value * (this.high - this.low);
      }
      this.answer();
      event.preventDefault();
    };
    pad.addEventListener("pointerdown", (event) => {
      try { pad.setPointerCapture(event.pointerId); } catch { /* a pointer that has gone */ }
      draw(event);
    });
    pad.addEventListener("pointermove", draw);
    byId("play-inputs").append(pad, make("div", { class: "tools" },
      make("label", {}, erase, " rubber"), clear));
  }

  show(i, scroll = false) {
    this.at = i;
    this.x = Float64Array.from(rowOf(this.rows, i));
    byId("play-example").value = String(i);
    this.answer();
    if (scroll) byId("play").scrollIntoView();
  }

  answer() {
    if (this.pad) paint(this.pad, this.x, this.data.shape, this.low, this.high);
    for (const { j, input, output } of this.sliders || []) {
      input.value = this.x[j];
      output.textContent = figure(this.x[j]);
    }
    if (this.columns) this.showColumns();
    const found = evaluate(this.model, this.x);
    byId("play-label").textContent = this.label(found.winner);
    byId("play-lead").textContent =
      `leads ${this.label(found.rival)} by ${figure(found.lead)}`;
    const top = found.order.slice(0, 6), scores = top.map((c) => found.scores[c]);
    const span = scores[0] - scores[scores.length - 1] || 1;
    const chance = probabilities(this.model, found.scores);
    byId("play-scores").replaceChildren(...top.map((c, k) => {
      const text = chance ? `${figure(scores[k])}, ${percent(chance[c])}` : figure(scores[k]);
      const item = make("li", {}, make("span", {}, this.label(c)), make("output", {}, text));
      item.style.setProperty("--s", 0.04 + 0.96 * (scores[k] - scores[scores.length - 1]) / span);
      return item;
    }));
    this.explain(found);
  }

  explain(found) {
    const isKernel = Boolean(this.model.coefficients);
    const table = isKernel ? null : this.data.features.table;
    const each = contributions(this.model, found), constant = each.constant;
    let parts = each.parts;
    if (table) {
      parts = new Float64Array(table.names.length);
      table.origin.forEach((k, j) => { parts[k] += each.parts[j]; });
    }
    const order = Array.from(parts, (_, j) => j).sort((a, b) => Math.abs(parts[b]) - Math.abs(parts[a]));
    const most = Math.abs(parts[order[0]]) || 1;
    const own = (i) => {
      const tau = rowOf(this.model.coefficients, i);
      if (tau.length === 1) return tau[0] > 0 ? 1 : 0;
      let best = 0;
      for (let r = 1; r < tau.length; r++) if (tau[r] > tau[best]) best = r;
      return this.model.prototype_class[best];
    };
    const name = (j) => {
      if (table) return table.names[j];
      const row = this.data.support ? this.data.support[j] : j;
      if (isKernel) return `support vector ${row} (${this.label(own(j))})`;
      const width = this.data.shape ? this.data.shape[1] : 0;
      if (width) return `row ${Math.floor(j / width) + 1}, column ${j % width + 1}`;
      return this.data.features.name ? this.data.features.name[j] : `feature ${j}`;
    };
    byId("play-why-title").textContent =
      `Why ${this.label(found.winner)} and not ${this.label(found.rival)}?`;
    const overlay = byId("play-why-image");
    const rest = order.slice(8).reduce((sum, j) => sum + parts[j], 0);
    const lines = order.slice(0, 8).filter((j) => parts[j] !== 0).map((j) => [name(j), parts[j]]);
    if (this.data.shape && !isKernel) {
      overlay.hidden = false;
      paint(overlay, parts, this.data.shape, -most, most, true);
    }
    if (order.length > 8) lines.push(["all others together", rest]);
    lines.push(["constant", constant]);
    byId("play-why").replaceChildren(...lines.map(([text, value]) => {
      const item = make("li", { class: value < 0 ? "against" : "for" },
        make("span", { title: text }, text), make("output", {}, figure(value)));
      item.style.setProperty("--s", Math.min(Math.abs(value) / most, 1));
      return item;
    }));
  }
}

/* The slider of the risk-coverage curve. */
function startReject(reject) {
  const slider = byId("reject-slider"), svg = document.querySelector("#reject svg[data-frame]");
  const frame = svg.dataset.frame.split(" ").map(Number);
  const mark = svg.querySelector("path").cloneNode();
  mark.setAttribute("class", "dots mark");
  svg.append(mark);
  const place = ([low, high, start, end], value) => start + (value - low) / (high - low) * (end - start);
  const last = reject.coverage.length - 1;
  const move = () => {
    const k = last - Number(slider.value);
    const x = place(frame.slice(0, 4), 100 * reject.coverage[k]);
    mark.setAttribute("d", `M${x} ${place(frame.slice(4), 100 * reject.risk[k])}h0`);
    byId("reject-threshold").textContent = figure(reject.threshold[k]);
    byId("reject-coverage").textContent = percent(reject.coverage[k]);
    byId("reject-risk").textContent = percent(reject.risk[k]);
    byId("reject-count").textContent = String(reject.n - Math.round(reject.coverage[k] * reject.n));
  };
  slider.max = last;
  slider.value = 0;
  slider.addEventListener("input", move);
  byId("reject-controls").hidden = false;
  move();
}

async function start() {
  const data = JSON.parse(byId("play-data").textContent);
  if (data.reject) startReject(data.reject);
  if (data.play) {
    const play = new Play(await unpacked(data.play));
    play.open();
    play.start();
  }
  document.documentElement.dataset.ready = "yes";
}

if (typeof document === "undefined") module.exports = { unpacked, evaluate, contributions, probabilities, rowOf };
else start();
