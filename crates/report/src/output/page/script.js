
// Pointing at a plot says what its lines are there; j and k go to the next section and back.
(function () {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const show = (v) => String(Number(v.toPrecision(4)));
  function nearest(line, x) {
    let best = -1;
    for (let i = 0; i < line.x.length; i++) {
      if (line.x[i] === null || line.y[i] === null) continue;
      if (line.steps && line.x[i] > x && best >= 0) break;
      if (best < 0 || Math.abs(line.x[i] - x) <= Math.abs(line.x[best] - x)) best = i;
    }
    return best;
  }
  for (const plot of document.querySelectorAll(".plot")) {
    const { panels, places } = JSON.parse(plot.querySelector("script").textContent);
    for (const [size, all] of Object.entries(places)) {
      const svg = plot.querySelector("." + size + " svg");
      const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
      cursor.setAttribute("class", "cursor");
      svg.append(cursor);
      const leave = () => { tip.hidden = true; cursor.style.display = "none"; };
      svg.addEventListener("pointerleave", leave);
      svg.addEventListener("pointermove", (event) => {
        const box = svg.getBoundingClientRect();
        const scale = svg.viewBox.baseVal.width / box.width;
        const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
        const at = all.findIndex(({ pixels: [l, t, r, b] }) => px >= l && px <= r && py >= t - 12 && py <= b + 12);
        if (at < 0) return leave();
        const { pixels: [l, , r], x: [from, to] } = all[at];
        const panel = panels[at];
        const place = from + ((px - l) / (r - l)) * (to - from);
        const x = panel.log ? 10 ** place : place;
        const alike = all.filter((_, i) => panels[i].x === panel.x);
        cursor.style.display = "";
        for (const [name, value] of Object.entries({
          x1: px, x2: px, y1: Math.min(...alike.map((p) => p.pixels[1])), y2: Math.max(...alike.map((p) => p.pixels[3])),
        })) cursor.setAttribute(name, value);
        const head = document.createElement("b");
        head.textContent = panel.names.length ? panel.names[Math.round(x)] ?? "" : panel.x + ": " + show(x);
        tip.replaceChildren(head);
        for (const line of panel.lines) {
          const i = nearest(line, x);
          if (i < 0 || !line.name) continue;
          const row = document.createElement("div"), key = document.createElement("span");
          key.className = "key";
          key.style.background = line.colour;
          row.append(key, line.name + " " + show(line.y[i]) + (panel.y ? " " + panel.y : ""));
          tip.append(row);
        }
        tip.hidden = false;
        const wide = tip.offsetWidth, side = event.clientX + 16 + wide > innerWidth ? -wide - 16 : 16;
        tip.style.left = Math.max(0, event.clientX + side) + scrollX + "px";
        tip.style.top = event.clientY + 16 + scrollY + "px";
      });
    }
  }
  const sections = Array.from(document.querySelectorAll("section"));
  document.addEventListener("keydown", (event) => {
    const step = { j: 1, k: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = sections.findIndex((s) => s.getBoundingClientRect().top > -40);
    const top = sections[here] && sections[here].getBoundingClientRect().top < 40;
    const to = sections[(here < 0 ? sections.length : here) + (step > 0 && !top ? 0 : step)];
    if (to) {
      to.scrollIntoView();
      to.focus({ preventScroll: true });
    }
  });
  document.body.dataset.drawn = String(document.querySelectorAll(".plot").length);
})();
