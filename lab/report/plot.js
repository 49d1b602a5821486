// Lines over time, one per arm. Hover or arrow keys show values, the legend hides arms, both axes can be logarithmic.
// All data come from the JSON inside the figure; nothing is loaded or stored elsewhere.
"use strict";
(() => {
  const COLOURS = 6;                                      // see --arm-0 ... in page.css
  const DASHES = ["", "8 4", "2 4", "10 4 2 4", "14 5"];  // the next one whenever the colours repeat
  const READ = 12;                                        // most values in a tooltip
  const LETTER = 7;                                       // width of a digit in tick labels, in pixels
  const DOT = "m-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0-3 0";  // mark of a point without neighbours
  const THIN = "\u202f";
  const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

  // ---------------------------------------------------------------- numbers

  const grouped = (digits) => {
    const [whole, rest] = digits.replace("-", "\u2212").split(".");
    const gaps = whole.replace("\u2212", "").length > 4 ? whole.replace(/(?<=\d)(?=(\d{3})+$)/g, THIN) : whole;
    return rest ? `${gaps}.${rest}` : gaps;
  };
  const trimmed = (digits) => (digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits);
  const power = (exponent) => "10" + [...String(exponent)].map((c) => RAISED[c]).join("");

  /** Format a number with up to `digits` significant digits; whole numbers in full. */
  function shown(value, digits = 4) {
    if (value === 0) return "0";
    if (Number.isInteger(value) && Math.abs(value) < 1e12) return grouped(String(value));
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e").map(Number);
    if (exponent < -4 || exponent > 8) return `${grouped(trimmed(mantissa.toFixed(digits - 1)))} × ${power(exponent)}`;
    return grouped(trimmed(Number(value.toPrecision(digits)).toFixed(Math.max(0, digits - 1 - exponent))));
  }

  // ---------------------------------------------------------------- axes

  /** Return the step of 1, 2 or 5 times a power of ten that makes at most `count` intervals. */
  function niceStep(span, count) {
    const raw = span / count;
    const unit = 10 ** Math.floor(Math.log10(raw));
    return unit * [1, 2, 5, 10].find((factor) => factor * unit >= raw * (1 - 1e-9));
  }

  function linearTicks(low, high, count) {
    const step = niceStep(high - low, count);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const label = (v) =>
      (v === 0 ? "0" : decimals > 5 || Math.abs(v) >= 1e7 ? shown(v) : grouped(v.toFixed(Math.min(decimals, 20))));
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
      ticks.push({ value: i * step, label: label(i * step) });
    }
    return ticks;
  }

  function logTicks(low, high, count) {
    const label = (v, e) => (e >= -3 && e <= 5 ? shown(v) : v === 10 ** e ? power(e) : shown(v, 2));
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    if (last - first >= 2) {
      const stride = Math.ceil((last - first + 1) / Math.max(2, count));
      const ticks = [];
      for (let e = Math.ceil(first / stride) * stride; e <= last; e += stride) {
        ticks.push({ value: 10 ** e, label: label(10 ** e, e) });
      }
      return ticks;
    }
    const ticks = [];
    for (let e = first - 1; e <= last; e++) {
      for (const factor of [1, 2, 5]) {
        const value = Number(`${factor}e${e}`);  // exact, unlike 5 * 10 ** -3
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push({ value, label: label(value, e) });
      }
    }
    return ticks.length > 1 ? ticks : linearTicks(low, high, count);
  }

  function scale(low, high, log, from, to) {
    const place = log ? Math.log : (v) => v;
    const [a, b] = [place(low), place(high)];
    const at = (v) => from + ((place(v) - a) / (b - a)) * (to - from);
    return { low, high, log, at };
  }

  /** The range of an axis of values, rounded outwards so that lines do not touch the frame. */
  function valueRange(values, log, count) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (log) {
      const margin = low === high ? 2 : (high / low) ** 0.05;
      return [low / margin, high * margin];
    }
    if (low === high) return low === 0 ? [0, 1] : [Math.min(0, 2 * low), Math.max(0, 2 * low)];
    const floor = low > 0 && low < 0.6 * high ? 0 : low;  // near enough to zero to show it
    const step = niceStep(high - floor, count);
    return [Math.floor(floor / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
  }

  // ---------------------------------------------------------------- elements

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    return filled(element, attributes, children);
  }

  function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const drawer = (svg) => (tag, attributes = {}, ...children) =>
    filled(document.createElementNS(svg.namespaceURI, tag), attributes, children);

  const look = (i) => ({
    class: `arm arm-${i % COLOURS}`,
    "stroke-dasharray": DASHES[Math.floor(i / COLOURS) % DASHES.length],
  });

  // ---------------------------------------------------------------- one plot

  function setUp(figure) {
    const data = JSON.parse(document.getElementById(`${figure.dataset.plot}-data`).textContent);
    const stage = figure.querySelector("[data-stage]");
    const svg = stage.querySelector("svg");
    const tooltip = stage.querySelector(".tooltip");
    const readout = figure.querySelector("[data-readout]");
    const draw = drawer(svg);
    const visible = data.arms.map(() => true);
    const log = { x: false, y: false };
    let at = null;        // the place whose values are shown, an index into data.x
    let frame = null;     // the scales of the last drawing
    let marks = null;     // the group of the crosshair

    const drawable = (i, arm) => {
      const y = data.arms[arm].y[i];
      return y !== null && !(log.y && y <= 0) && !(log.x && data.x[i] <= 0);
    };

    // ---- drawing

    function scales(width, height) {
      const places = log.x ? data.x.filter((x) => x > 0) : data.x;
      const first = places[0], last = places[places.length - 1];
      const wide = LETTER * shown(last).length;  // about the width of a label of the x axis
      const room = { top: 30, bottom: 46, right: Math.max(14, Math.min(40, wide / 2)) };
      const rows = Math.max(2, Math.floor((height - room.top - room.bottom) / 48));
      const values = data.arms.flatMap((arm, j) => (visible[j] ? arm.y.filter((_, i) => drawable(i, j)) : []));
      const [low, high] = values.length ? valueRange(values, log.y, rows) : log.y ? [0.1, 1] : [0, 1];
      const yTicks = (log.y ? logTicks : linearTicks)(low, high, rows);
      const left = 14 + LETTER * Math.max(...yTicks.map((tick) => tick.label.length));
      const [from, to] = first < last ? [first, last] : log.x ? [first / 2, first * 2] : [first - 1, first + 1];
      const x = scale(from, to, log.x, left, width - room.right);
      const y = scale(low, high, log.y, height - room.bottom, room.top);
      const columns = Math.max(2, Math.floor((width - left) / Math.max(66, wide + 28)));
      const xTicks = (log.x ? logTicks : linearTicks)(from, to, columns);
      const edges = { left, right: width - room.right, top: room.top, bottom: height - room.bottom };
      return { x, y, xTicks, yTicks, width, height, ...edges };
    }

    function axes({ x, y, xTicks, yTicks, left, right, top, bottom, height }) {
      const grid = yTicks.flatMap(({ value, label }) => [
        draw("line", { class: "grid", x1: left, x2: right, y1: y.at(value), y2: y.at(value) }),
        draw("text", { x: left - 8, y: y.at(value), dy: "0.35em", "text-anchor": "end" }, label),
      ]);
      const feet = xTicks.flatMap(({ value, label }) => [
        draw("line", { class: "tick", x1: x.at(value), x2: x.at(value), y1: bottom, y2: bottom + 5 }),
        draw("text", { x: x.at(value), y: bottom + 20, "text-anchor": "middle" }, label),
      ]);
      const frameLine = draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
      const yName = draw("text", { class: "label", x: 2, y: top - 14 }, data.yLabel + (log.y ? " (log)" : ""));
      const xName = draw("text", { class: "label", x: right, y: height - 6, "text-anchor": "end" },
        data.xLabel + (log.x ? " (log)" : ""));
      return draw("g", { class: "axes" }, ...grid, ...feet, frameLine, yName, xName);
    }

    function line(arm) {
      const { x, y } = frame;
      let path = "", alone = false, open = false;
      data.x.forEach((place, i) => {
        if (!drawable(i, arm)) {
          if (alone) path += DOT;
          open = alone = false;
          return;
        }
        path += `${open ? "L" : "M"}${x.at(place).toFixed(1)} ${y.at(data.arms[arm].y[i]).toFixed(1)}`;
        alone = !open;
        open = true;
      });
      return draw("path", { ...look(arm), "data-arm": arm, d: path + (alone ? DOT : "") });
    }

    function render() {
      const width = Math.round(stage.clientWidth);
      if (!width) return;
      const height = Math.round(Math.min(420, Math.max(270, width * 0.52)));
      frame = scales(width, height);
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      marks = draw("g", { class: "marks" });
      const lines = data.arms.flatMap((_, arm) => (visible[arm] ? [line(arm)] : []));
      svg.replaceChildren(axes(frame), draw("g", { class: "lines" }, ...lines), marks);
      mark();
    }

    // ---- reading values

    const readings = () => data.arms
      .map((arm, j) => ({ name: arm.name, arm: j, y: arm.y[at] }))
      .filter(({ arm, y }) => visible[arm] && y !== null)
      .sort((a, b) => b.y - a.y);

    function nearest(pixel) {
      const { x } = frame;
      let low = log.x ? data.x.findIndex((v) => v > 0) : 0, high = data.x.length - 1;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (x.at(data.x[middle]) < pixel) low = middle; else high = middle;
      }
      return pixel - x.at(data.x[low]) < x.at(data.x[high]) - pixel ? low : high;
    }

    function mark() {
      marks.replaceChildren();
      tooltip.hidden = true;
      if (at === null) return;
      if (log.x && data.x[at] <= 0) at = nearest(frame.left);
      const { x, y, top, bottom } = frame;
      const across = x.at(data.x[at]);
      const read = readings();
      marks.append(draw("line", { class: "crosshair", x1: across, x2: across, y1: top, y2: bottom }));
      for (const { arm, y: value } of read) {
        if (drawable(at, arm)) {
          marks.append(draw("circle", { class: `dot arm-${arm % COLOURS}`, cx: across, cy: y.at(value), r: 4 }));
        }
      }
      tell(read, across);
    }

    function tell(read, across) {
      const rows = read.slice(0, READ).map(({ name, arm, y }) =>
        make("li", {}, swatch(arm), make("span", { class: "who" }, name), make("b", {}, shown(y))));
      const more = read.length > READ ? [make("li", { class: "more" }, `and ${read.length - READ} more`)] : [];
      const place = make("p", {}, `${data.xLabel} `, make("b", {}, shown(data.x[at])));
      tooltip.replaceChildren(place, make("ul", {}, ...rows, ...more));
      tooltip.hidden = false;
      // Next to the crosshair, on the side with more room, and always inside the plot.
      const room = frame.width - tooltip.offsetWidth;
      const beside = across < frame.width / 2 ? across + 14 : across - 14 - tooltip.offsetWidth;
      tooltip.style.left = `${Math.max(0, Math.min(room, beside))}px`;
      tooltip.style.top = `${frame.top}px`;
    }

    function announce() {
      readout.textContent = "";
      if (at === null) return;
      const read = readings().slice(0, READ).map(({ name, y }) => `${name} ${shown(y)}`);
      readout.textContent = `${data.xLabel} ${shown(data.x[at])}: ${read.join(", ") || "no line is shown"}`;
    }

    function move(to) {
      if (to === at) return;
      at = to;
      mark();
    }

    function hide() {
      move(null);
      announce();
    }

    const point = (event) => {
      const box = svg.getBoundingClientRect();
      move(nearest((event.clientX - box.left) * (frame.width / box.width)));
    };
    stage.addEventListener("pointermove", point);
    stage.addEventListener("pointerdown", point);
    stage.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hide(); });
    stage.addEventListener("blur", hide);
    document.addEventListener("pointerdown", (event) => { if (!stage.contains(event.target)) hide(); });

    stage.addEventListener("keydown", (event) => {
      const first = log.x ? data.x.findIndex((v) => v > 0) : 0, last = data.x.length - 1;
      const leap = Math.max(1, Math.round((last - first) / 10));
      const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: -leap, PageUp: leap }[event.key];
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "Escape") hide();
      else if (event.key === "Home") move(first);
      else if (event.key === "End") move(last);
      else if (by) move(at === null ? (by > 0 ? first : last) : Math.max(first, Math.min(last, at + by)));
      else return;
      event.preventDefault();
      announce();  // only for keys: a moving mouse would announce too many values
    });

    // ---- legend and switches

    function swatch(arm) {
      const sign = draw("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true" });
      sign.append(draw("line", { ...look(arm), x1: 1, x2: 25, y1: 5, y2: 5 }));
      return sign;
    }

    const buttons = data.arms.map(({ name }, arm) => {
      const button = make("button", { type: "button", "aria-pressed": "true" }, swatch(arm), make("span", {}, name));
      button.addEventListener("click", () => show((shownNow, j) => (j === arm ? !shownNow : shownNow)));
      button.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") lift(arm); });
      button.addEventListener("pointerleave", () => lift(null));
      return button;
    });

    /** Highlight one line, or none. */
    function lift(arm) {
      for (const path of svg.querySelectorAll("[data-arm]")) {
        path.classList.toggle("faded", arm !== null && visible[arm] && path.dataset.arm !== String(arm));
      }
    }

    function show(rule) {
      visible.forEach((now, arm) => { visible[arm] = rule(now, arm); });
      buttons.forEach((button, arm) => button.setAttribute("aria-pressed", String(visible[arm])));
      render();
    }

    function everyOrNone(label, on) {
      const button = make("button", { type: "button" }, label);
      button.addEventListener("click", () => show(() => on));
      return button;
    }

    function logSwitch(axis, values) {
      const box = make("input", { type: "checkbox", "data-log": axis });
      box.disabled = !values.some((v) => v !== null && v > 0);
      box.addEventListener("change", () => { log[axis] = box.checked; render(); });
      return make("label", {}, box, ` logarithmic ${axis}`);
    }

    const legend = figure.querySelector("[data-legend]");
    legend.append(...buttons);
    const controls = figure.querySelector("[data-controls]");
    controls.append(logSwitch("x", data.x), logSwitch("y", data.arms.flatMap(({ y }) => y)));
    if (buttons.length > 2) {
      controls.append(make("span", {}, everyOrNone("Show all", true), everyOrNone("Hide all", false)));
    }
    for (const part of [legend, controls, stage]) part.hidden = false;
    figure.querySelector("[data-excuse]").hidden = true;
    // In the next frame: drawing changes the height, and an observer must not react to its own change.
    const redraw = () => { if (stage.clientWidth !== frame?.width) render(); };
    new ResizeObserver(() => requestAnimationFrame(redraw)).observe(stage);
    render();
  }

  document.querySelectorAll("[data-plot]").forEach(setUp);
})();
