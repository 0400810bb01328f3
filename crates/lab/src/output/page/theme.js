
// The plots are transparent; what is drawn on them follows the page, also when it changes.
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function paint() {
    const ink = dark.matches ? "#e6edf3" : "#1b1f24";
    const grid = dark.matches ? "#30363d" : "#e4e8ec";
    const page = dark.matches ? "#0d1117" : "#ffffff";
    const look = { "font.color": ink, "hoverlabel.bgcolor": page, hoversubplots: "axis" };
    for (const axis of ["xaxis", "yaxis", "yaxis2", "yaxis3", "yaxis4", "yaxis5"]) {
      look[axis + ".gridcolor"] = grid;
      look[axis + ".linecolor"] = grid;
    }
    for (const plot of document.querySelectorAll(".plotly-graph-div")) Plotly.relayout(plot, look);
  }
  dark.addEventListener("change", paint);
  paint();
})();
