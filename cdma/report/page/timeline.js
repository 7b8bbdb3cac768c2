// Timelines: a bar per event, a lane per stream, a group per plan, the memory below each.
//
// Zoom: buttons, + and -, Ctrl with the wheel, a double click on a bar. Pan: drag, arrow keys.
// Bars that are narrower than half a pixel and follow one of their kind wait for a closer look.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 110, RIGHT = 10, TOP = 24, TITLE = 20, LANE = 18, GAP = 2, MEMORY = 44, BELOW = 14;
  const LEAST_PART = 1e-6;

  const element = (parent, name, attributes = {}, text = null) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== null) made.textContent = text;
    parent.append(made);
    return made;
  };

  const html = (parent, name, text = "", className = "") => {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    parent.append(made);
    return made;
  };

  // A step of 1, 2 or 5 times a power of ten, about `count` of them in a range.
  const stepOf = (range, count) => {
    const raw = range / count, power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  };

  const withUnit = (bytes) => {
    const [unit, scale] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]]
      .find(([, least]) => bytes >= least) ?? ["B", 1];
    return `${(bytes / scale).toLocaleString("en", { maximumFractionDigits: 2 })} ${unit}`;
  };

  class Timeline {
    constructor(host) {
      this.host = host;
      this.data = JSON.parse(document.getElementById(host.dataset.source).textContent);
      this.shown = new Set(this.data.groups.filter((group) => group.shown));
      this.controls();
      this.svg = element(host, "svg", { tabindex: 0, role: "img" });
      this.svg.setAttribute("aria-label", "Timeline; plus and minus zoom, arrows pan, 0 shows all");
      this.tip = html(host, "div", "", "tip");
      this.tip.hidden = true;
      this.listen();
      this.fit();
    }

    controls() {
      const row = html(this.host, "div", "", "controls");
      for (const [text, title, action] of [
        ["+", "Zoom in", () => this.zoom(0.5)],
        ["−", "Zoom out", () => this.zoom(2)],
        ["All", "Show the whole step", () => this.fit()],
      ]) {
        const button = html(row, "button", text);
        button.type = "button";
        button.title = button.ariaLabel = title;
        button.addEventListener("click", action);
      }
      for (const group of this.data.groups) {
        const label = html(row, "label"), box = html(label, "input");
        box.type = "checkbox";
        box.checked = this.shown.has(group);
        label.append(` ${group.name}`);
        box.addEventListener("change", () => {
          if (box.checked) this.shown.add(group); else this.shown.delete(group);
          this.draw();
        });
      }
      const legend = html(this.host, "div", "", "controls legend");
      for (const [kind, color] of this.data.kinds) this.entry(legend, kind, color);
      if (this.data.groups.some((group) => group.memory.length)) {
        this.entry(legend, "memory reserved", "#b0b0b0");
        html(legend, "span", "- - memory limit");
      }
    }

    entry(legend, text, color) {
      const made = html(legend, "span");
      html(made, "i").style.background = color;
      made.append(text);
    }

    // The range that is seen becomes `from` … `to`, within all that there is.
    look(from, to) {
      const least = this.end * LEAST_PART;
      const range = Math.min(this.end, Math.max(least, to - from));
      this.from = Math.min(Math.max(0, from), this.end - range);
      this.to = this.from + range;
      this.draw();
    }

    fit() {
      const ends = this.data.groups.filter((group) => this.shown.has(group)).map((g) => g.end);
      this.end = Math.max(0, ...ends) || Math.max(1e-9, ...this.data.groups.map((g) => g.end));
      this.look(0, this.end);
    }

    // `at` is the time that stays where it is.
    zoom(factor, at = (this.from + this.to) / 2) {
      this.look(at - (at - this.from) * factor, at + (this.to - at) * factor);
    }

    x(time) { return LEFT + (time - this.from) / (this.to - this.from) * this.width; }

    timeAt(event) {
      const x = event.clientX - this.svg.getBoundingClientRect().left - LEFT;
      return this.from + x / this.width * (this.to - this.from);
    }

    listen() {
      const svg = this.svg;
      let dragged = null;
      svg.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.timeAt(event));
      }, { passive: false });
      svg.addEventListener("dblclick", (event) => {
        const bar = event.target.closest(".bar");
        if (!bar) return;
        const start = Number(bar.dataset.start), duration = Number(bar.dataset.duration);
        this.look(start - duration, start + 2 * duration);
      });
      svg.addEventListener("pointerdown", (event) => {
        dragged = { x: event.clientX, from: this.from, to: this.to };
      });
      svg.addEventListener("pointermove", (event) => {
        if (dragged && event.buttons) {
          const by = (event.clientX - dragged.x) / this.width * (dragged.to - dragged.from);
          if (by) this.look(dragged.from - by, dragged.to - by);
        }
        this.hover(event);
      });
      svg.addEventListener("pointerup", () => { dragged = null; });
      svg.addEventListener("pointerleave", () => { dragged = null; this.leave(); });
      svg.addEventListener("keydown", (event) => {
        const by = (this.to - this.from) / 5;
        const action = {
          "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
          "0": () => this.fit(),
          ArrowLeft: () => this.look(this.from - by, this.to - by),
          ArrowRight: () => this.look(this.from + by, this.to + by),
        }[event.key];
        if (!action) return;
        event.preventDefault();
        action();
      });
      new ResizeObserver(() => this.draw()).observe(this.host);
    }

    leave() {
      this.tip.hidden = true;
      this.svg.querySelector(".hovered")?.classList.remove("hovered");
    }

    hover(event) {
      const bar = event.target.closest?.(".bar");
      this.leave();
      if (!bar) return;
      bar.classList.add("hovered");
      this.tip.textContent = this.describe(this.groups[bar.dataset.group].events[bar.dataset.event]);
      this.tip.hidden = false;
      const box = this.host.getBoundingClientRect();
      const x = Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 8);
      this.tip.style.left = `${Math.max(0, x)}px`;
      this.tip.style.top = `${event.clientY - box.top + 16}px`;
    }

    describe([lane, kind, start, duration, name, bytes, reason, waited]) {
      const { unit, names, kinds, lanes } = this.data;
      const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 4 });
      const lines = [names[name].startsWith(kinds[kind][0]) ? names[name]
        : `${kinds[kind][0]} ${names[name]}`];
      lines.push(`${lanes[lane]}: ${number(start)} to ${number(start + duration)} ${unit}, ` +
        `${number(duration)} ${unit} long`);
      if (bytes !== null) {
        const rate = unit === "ms" && duration > 0
          ? `, ${(bytes / duration / 1e6).toFixed(2)} GB/s` : "";
        lines.push(`${withUnit(bytes)}${rate}`);
      }
      if (reason !== null) {
        const behind = waited === null ? "" : `, behind ${names[waited]}`;
        lines.push(`began when it did by: ${names[reason]}${behind}`);
      }
      return lines.join("\n");
    }

    draw() {
      this.leave();
      this.groups = this.data.groups.filter((group) => this.shown.has(group));
      this.width = Math.max(50, this.host.clientWidth - 20 - LEFT - RIGHT);
      const lanes = this.data.lanes.length * LANE;
      const heights = this.groups.map((group) =>
        TITLE + lanes + (group.memory.length ? MEMORY : 0) + BELOW);
      const height = TOP + heights.reduce((sum, each) => sum + each, 0);
      this.svg.replaceChildren();
      this.svg.setAttribute("height", height);
      this.svg.dataset.from = this.from;
      this.svg.dataset.to = this.to;
      this.axis(height);
      let y = TOP;
      this.groups.forEach((group, index) => {
        this.group(group, index, y);
        y += heights[index];
      });
    }

    axis(height) {
      const step = stepOf(this.to - this.from, Math.max(2, this.width / 110));
      const digits = Math.max(0, -Math.floor(Math.log10(step)));
      for (let i = Math.ceil(this.from / step); i * step <= this.to; i += 1) {
        const x = this.x(i * step);
        element(this.svg, "line", { class: "grid", x1: x, x2: x, y1: TOP - 6, y2: height });
        const text = `${(i * step).toLocaleString("en",
          { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${this.data.unit}`;
        element(this.svg, "text", { class: "tick", x, y: 12, "text-anchor": "middle" }, text);
      }
    }

    group(group, index, top) {
      const texts = { x: 4, y: top + 13, class: "title" };
      element(this.svg, "text", texts, group.title);
      const lanes = top + TITLE;
      this.data.lanes.forEach((lane, i) =>
        element(this.svg, "text", { x: 4, y: lanes + i * LANE + 13 }, lane));
      const last = this.data.lanes.map(() => ({ end: -1, kind: null }));
      group.events.forEach(([lane, kind, start, duration], i) => {
        if (start > this.to || start + duration < this.from) return;
        const from = Math.max(LEFT, this.x(start));
        const to = Math.min(LEFT + this.width, this.x(start + duration));
        const before = last[lane];
        if (to - from < 0.5 && before.kind === kind && to - before.end < 0.5) return;
        last[lane] = { end: to, kind };
        element(this.svg, "rect", {
          class: "bar", x: from, y: lanes + lane * LANE, width: Math.max(0.5, to - from),
          height: LANE - GAP, fill: this.data.kinds[kind][1], "data-group": index,
          "data-event": i, "data-start": start, "data-duration": duration,
        });
      });
      if (group.memory.length) this.memory(group, lanes + this.data.lanes.length * LANE);
    }

    memory(group, top) {
      const highest = Math.max(group.limit ?? 0, ...group.memory.map(([, bytes]) => bytes));
      const bottom = top + MEMORY, y = (bytes) => bottom - bytes / highest * (MEMORY - 8);
      const inside = (time) => Math.min(LEFT + this.width, Math.max(LEFT, this.x(time)));
      let path = `M${inside(group.memory[0][0])},${bottom}`;
      group.memory.forEach(([time, bytes], i) => {
        const next = i + 1 < group.memory.length ? group.memory[i + 1][0] : group.end;
        if (next < this.from || time > this.to) return;
        path += `L${inside(time)},${y(bytes)}L${inside(next)},${y(bytes)}`;
      });
      const last = group.memory[group.memory.length - 1][0];
      path += `L${inside(Math.max(last, group.end))},${bottom}Z`;
      element(this.svg, "path", { class: "memory", d: path });
      element(this.svg, "text", { x: 4, y: top + 14 }, "memory");
      element(this.svg, "text", { x: 4, y: top + 28 }, `to ${withUnit(highest)}`);
      if (group.limit) {
        const at = y(group.limit);
        element(this.svg, "line", { class: "limit", x1: LEFT, x2: LEFT + this.width, y1: at, y2: at });
      }
    }
  }

  for (const host of document.querySelectorAll(".timeline")) new Timeline(host);
})();
