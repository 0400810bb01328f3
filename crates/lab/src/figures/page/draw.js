
// One figure after the other, so that the first is there at once; the plots are transparent, and what is
// drawn on them follows the page, also when it changes.
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function look(layout, onPaper) {
    const night = dark.matches && !onPaper;
    const ink = night ? "#e6edf3" : "#1b1f24";
    const grid = night ? "#30363d" : "#e4e8ec";
    const out = { "font.color": ink, "hoverlabel.bgcolor": night ? "#0d1117" : "#ffffff" };
    for (const name of Object.keys(layout)) {
      if (/^[xy]axis/.test(name)) {
        out[name + ".gridcolor"] = grid;
        out[name + ".linecolor"] = grid;
      }
    }
    return out;
  }
  const plots = [];
  function paint(onPaper) {
    for (const plot of plots) Plotly.relayout(plot, look(plot.layout, onPaper));
  }
  const waiting = Array.from(document.querySelectorAll("script.figure"));
  function next() {
    const source = waiting.shift();
    if (!source) {
      document.body.dataset.drawn = String(plots.length);
      return;
    }
    const figure = JSON.parse(source.textContent);
    const plot = document.getElementById(source.dataset.plot);
    Plotly.newPlot(plot, figure.data, figure.layout, { responsive: true, displayModeBar: false });
    Plotly.relayout(plot, look(figure.layout, false));
    plots.push(plot);
    setTimeout(next, 0);
  }
  next();
  dark.addEventListener("change", () => paint(false));
  window.addEventListener("beforeprint", () => paint(true));
  window.addEventListener("afterprint", () => paint(false));
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
})();
