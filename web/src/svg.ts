/** Elements of a plot: axes, lines, and the page's colours in a file of its own. */

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Axis {
  low: number;
  high: number;
}

type Attributes = Record<string, string | number>;

export function element(name: string, attributes: Attributes, ...children: (SVGElement | string)[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

export function picture(width: number, height: number, label: string): SVGElement {
  return element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}

/** Round numbers from `low` to `high`, about `most` of them. */
export function ticks({ low, high }: Axis, most: number): number[] {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => span / n <= most) ?? span;
  const all: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) all.push(i * step);
  return all;
}

export function label(value: number): string {
  return String(Number(value.toPrecision(6)));
}

export function scale(value: number, axis: Axis, from: number, length: number): number {
  return from + ((value - axis.low) / (axis.high - axis.low)) * length;
}

/** Both axes with their grid and names, for a box. */
export function axes(box: Box, x: Axis, y: Axis, xName: string, yName: string): SVGElement {
  const group = element("g", { class: "axes", "aria-hidden": "true" });
  const { left, top, width, height } = box;
  for (const tick of ticks(y, Math.max(2, Math.floor(height / 32)))) {
    const at = scale(tick, y, top + height, -height);
    group.append(
      element("line", { class: "grid", x1: left, x2: left + width, y1: at, y2: at }),
      element("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, label(tick)),
    );
  }
  for (const tick of ticks(x, Math.max(2, Math.floor(width / 70)))) {
    const at = scale(tick, x, left, width);
    group.append(
      element("line", { class: "grid", x1: at, x2: at, y1: top, y2: top + height }),
      element("text", { x: at, y: top + height + 15, "text-anchor": "middle" }, label(tick)),
    );
  }
  group.append(
    element("text", { class: "name", x: left, y: top - 8 }, yName),
    element("text", { class: "name", x: left + width, y: top + height + 30, "text-anchor": "end" }, xName),
  );
  return group;
}

/** A path through the points that are numbers. Of the points that share a pixel, least, greatest and last are drawn. */
export function line(xs: Float64Array, ys: Float64Array, box: Box, x: Axis, y: Axis): string {
  const parts: string[] = [];
  let pen = "M";
  const point = (px: number, value: number) => {
    const py = scale(value, y, box.top + box.height, -box.height);
    parts.push(`${pen}${px.toFixed(1)} ${py.toFixed(1)}`);
    pen = "L";
  };
  for (let i = 0; i < xs.length; ) {
    const px = scale(xs[i]!, x, box.left, box.width);
    let [least, greatest, last] = [ys[i]!, ys[i]!, ys[i]!];
    let next = i + 1;
    while (next < xs.length && scale(xs[next]!, x, box.left, box.width) - px < 0.7) {
      last = ys[next]!;
      least = Math.min(least, last);
      greatest = Math.max(greatest, last);
      next += 1;
    }
    if (Number.isNaN(least)) {
      pen = "M";
    } else {
      if (least !== last) point(px, least);
      if (greatest !== last && greatest !== least) point(px, greatest);
      point(px, last);
    }
    i = next;
  }
  return parts.join("");
}

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight"];

/** Pictures below each other as a file, with the colours that they have on the page. */
export function file(pictures: SVGElement[], background: string): string {
  let height = 0;
  let width = 0;
  const parts = pictures.map((shown) => {
    const copy = shown.cloneNode(true) as SVGElement;
    const [from, to] = [shown, copy].map((root) => [root, ...root.querySelectorAll<SVGElement>("*")]);
    from!.forEach((one, i) => {
      const style = getComputedStyle(one);
      for (const name of DRAWN) to![i]!.setAttribute(name, style.getPropertyValue(name));
    });
    copy.querySelectorAll(".cursor").forEach((cursor) => cursor.remove());
    copy.setAttribute("y", String(height));
    height += Number(shown.getAttribute("height")) + 8;
    width = Math.max(width, Number(shown.getAttribute("width")));
    return copy;
  });
  const whole = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  whole.append(element("rect", { width, height, fill: background }), ...parts);
  return new XMLSerializer().serializeToString(whole);
}
