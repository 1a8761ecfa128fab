// Curves on a canvas: smoothed in front of the measured values, with events marked on the same axis.
const FEW = 20;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Exponential smoothing as in TensorBoard, corrected for its start.
export function smooth(points, weight) {
  if (weight <= 0) return points;
  let last = 0; let seen = 0;
  return points.map(([step, wall, value]) => {
    if (value === null) return [step, wall, value];
    last = last * weight + (1 - weight) * value;
    seen += 1;
    return [step, wall, last / (1 - weight ** seen)];
  });
}

// At most two points per pixel: the lowest and the highest.
function thin(list, width) {
  if (list.length <= width * 2) return list;
  const size = Math.ceil(list.length / width);
  const out = [];
  for (let at = 0; at < list.length; at += size) {
    let [low, high] = [list[at], list[at]];
    for (let i = at; i < Math.min(at + size, list.length); i += 1) {
      if (list[i][1] < low[1]) low = list[i];
      if (list[i][1] > high[1]) high = list[i];
    }
    out.push(...(low[0] <= high[0] ? [low, high] : [high, low]));
  }
  return out;
}

function ticks(low, high, most) {
  const span = high - low || 1;
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const out = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) out.push(at);
  return out;
}

const short = (n) => {
  const size = Math.abs(n);
  if (size >= 1e6) return `${+(n / 1e6).toFixed(2)}M`;
  if (size >= 1e4) return `${+(n / 1e3).toFixed(1)}k`;
  if (size !== 0 && size < 0.001) return n.toExponential(0);
  return String(+n.toPrecision(4));
};

// series: [{name, key, points: [[step, wall, value]]}], marks: [{step, wall, sign, key}], options: {axis, smoothing, log, start}
export function draw(canvas, series, marks, options, pointer) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (width === 0) return null;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  const time = options.axis === "time";
  const x = ([step, wall]) => (time ? wall - options.start : step);
  const y = (value) => (options.log ? Math.log10(value) : value);
  const good = (value) => value !== null && Number.isFinite(value) && (!options.log || value > 0);
  const lists = series.map((one) => ({
    ...one,
    raw: one.points.filter((p) => good(p[2])).map((p) => [x(p), y(p[2])]),
    soft: smooth(one.points, options.smoothing).filter((p) => good(p[2])).map((p) => [x(p), y(p[2])]),
  }));
  const all = lists.flatMap((one) => thin(one.raw, 2000));
  if (all.length === 0) return null;
  const min = (at) => all.reduce((low, p) => Math.min(low, p[at]), Infinity);
  const max = (at) => all.reduce((high, p) => Math.max(high, p[at]), -Infinity);
  let [x0, x1, y0, y1] = [min(0), max(0), min(1), max(1)];
  // One outlier at the start would flatten all other values.
  const sorted = all.map((p) => p[1]).sort((a, b) => a - b);
  if (sorted.length > 20) y1 = Math.min(y1, sorted[Math.floor(sorted.length * 0.99)] * 1.05 + (y1 - y0) * 0.02);
  if (x1 === x0) x1 = x0 + 1;
  if (y1 <= y0) { y0 -= Math.abs(y0) * 0.1 + 1e-6; y1 = y0 + Math.abs(y0) * 0.2 + 2e-6; }
  const [left, right, top, bottom] = [52, width - 8, 14, height - 22];
  const px = (v) => left + ((v - x0) / (x1 - x0)) * (right - left);
  const py = (v) => bottom - ((v - y0) / (y1 - y0)) * (bottom - top);
  const [line, dim] = [colour("--line"), colour("--dim")];
  context.font = '11px system-ui, "Open Sans", sans-serif';
  context.lineWidth = 1;
  context.fillStyle = dim;
  context.strokeStyle = line;
  for (const tick of ticks(y0, y1, 4)) {
    context.beginPath(); context.moveTo(left, py(tick)); context.lineTo(right, py(tick)); context.stroke();
    context.textAlign = "right"; context.textBaseline = "middle";
    context.fillText(short(options.log ? 10 ** tick : tick), left - 6, py(tick));
  }
  context.textAlign = "center"; context.textBaseline = "top";
  for (const tick of ticks(x0, x1, Math.max(2, Math.floor(width / 110)))) {
    const text = time ? `${short(tick)} s` : short(tick);
    context.fillText(text, Math.min(px(tick), width - context.measureText(text).width / 2 - 1), bottom + 6);
  }
  context.save();
  context.beginPath(); context.rect(left - 7, 0, right - left + 14, bottom + 1); context.clip();
  const placed = new Map();
  const taken = [];
  for (const mark of marks) {
    const at = time ? (mark.wall === undefined ? null : mark.wall - options.start) : mark.step;
    if (at === null || at === undefined || at < x0 || at > x1) continue;
    // Many marks of one kind would cover the curve, so some are omitted.
    if (mark.many && px(at) - (placed.get(mark.sign) ?? -Infinity) < 28) continue;
    placed.set(mark.sign, px(at));
    context.strokeStyle = context.fillStyle = colour(mark.colour);
    context.setLineDash([3, 3]); context.globalAlpha = 0.7;
    context.beginPath(); context.moveTo(px(at), top); context.lineTo(px(at), bottom); context.stroke();
    context.setLineDash([]); context.globalAlpha = 1;
    // Events at the same step are drawn side by side.
    let sign = px(at);
    const crowded = () => taken.some((other) => Math.abs(other - sign) < 12);
    while (crowded() && sign + 12 <= right) sign += 12;
    while (crowded() && sign > left) sign -= 12;
    taken.push(sign);
    context.textAlign = "center"; context.textBaseline = "alphabetic"; context.fillText(mark.sign, sign, 11);
  }
  const path = (list) => {
    context.beginPath();
    thin(list, right - left).forEach((p, at) => (at === 0 ? context.moveTo(px(p[0]), py(p[1])) : context.lineTo(px(p[0]), py(p[1]))));
    context.stroke();
    if (list.length < 60) for (const p of list) { context.beginPath(); context.arc(px(p[0]), py(p[1]), 2.2, 0, 7); context.fill(); }
  };
  for (const one of lists) {
    context.strokeStyle = context.fillStyle = colour(`--c${one.key % 8}`);
    // A few evaluations are not noisy; smoothing would distort them.
    const soft = options.smoothing > 0 && one.raw.length >= FEW;
    if (soft) { context.globalAlpha = 0.28; context.lineWidth = 1; path(one.raw); }
    context.globalAlpha = 1; context.lineWidth = 1.8; path(soft ? one.soft : one.raw);
  }
  context.restore();
  if (pointer === undefined || pointer === null || pointer < left || pointer > right) return null;
  context.strokeStyle = dim;
  context.beginPath(); context.moveTo(pointer, top); context.lineTo(pointer, bottom); context.stroke();
  const want = x0 + ((pointer - left) / (right - left)) * (x1 - x0);
  return lists.map((one) => {
    let best = null;
    for (const p of one.points) if (good(p[2]) && (best === null || Math.abs(x(p) - want) < Math.abs(x(best) - want))) best = p;
    return { name: one.name, point: best };
  });
}
