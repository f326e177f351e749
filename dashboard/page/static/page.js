"use strict";
// The page is whole without this. Here: numbers that renew themselves, reading and zooming a curve, and keys.
const said = document.getElementById("said"), stale = document.getElementById("stale");

// --- renewing: the same address again, and only what is in <main> is exchanged ---
let timer, pressed = false, renewed = new Date(), reading = null; // reading: the figure and the start of the point that is read
function plan() {
  clearTimeout(timer);
  const every = Number(document.querySelector("main").dataset.live || 0);
  if (every) timer = setTimeout(renew, every * 1000);
}
async function show(address, fresh) {
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const now = page.querySelector("main"), before = document.querySelector("main");
  if (answer.status >= 500) throw new Error("the server cannot answer");
  if (!answer.ok || !now || answer.redirected || "problem" in before.dataset) return location.assign(address);
  const open = fresh ? [] : [...before.querySelectorAll("details")].map((each) => each.open);
  const tabs = [...before.querySelectorAll(".tabbed>:checked")].map((each) => each.id);
  const ticked = new Set([...before.querySelectorAll(".tick:checked")].map((each) => each.name + each.value));
  const focus = fresh ? null : place(document.activeElement), named = fresh && document.activeElement.closest("main a,main summary") ? name(document.activeElement) : "";
  const typed = document.activeElement instanceof HTMLInputElement ? document.activeElement.value : null;
  now.querySelectorAll("details").forEach((each, n) => { each.open = !!open[n]; });
  const kept = fresh ? null : reading;
  for (const id of tabs) { const tab = page.getElementById(id); if (tab && !(fresh && tab.closest(".tabbed").querySelector(".pane [aria-current]"))) tab.checked = true; }
  now.querySelectorAll(".tick").forEach((each) => { each.checked = ticked.has(each.name + each.value); });
  before.replaceWith(document.adoptNode(now));
  document.title = page.title;
  const at = page.getElementById("updated");
  if (at) document.getElementById("updated")?.replaceWith(at);
  renewed = new Date();
  stale.hidden = true;
  decorate();
  const back = focus === null ? null : now.querySelectorAll("a,button,input,select,summary,[tabindex]")[focus];
  if (back) { back.focus({ preventScroll: true }); if (typed !== null && "value" in back && back.type !== "radio") back.value = typed; }
  else if (named) [...now.querySelectorAll("a,summary")].find((each) => name(each) === named)?.focus({ preventScroll: true });
  if (kept) now.querySelectorAll("figure.chart")[kept.figure]?.dispatchEvent(new CustomEvent("read", { detail: kept.start }));
  plan();
}
function place(element) {
  const at = [...document.querySelectorAll("main a,main button,main input,main select,main summary,main [tabindex]")].indexOf(element);
  return at < 0 ? null : at;
}
// What a link is called, without its numbers: after going elsewhere the one of the same name has the focus.
function name(element) {
  return element.closest(".sheet") ? "" : (element.querySelector?.(".name") || element).textContent.trim().slice(0, 80);
}
async function renew() {
  const busy = document.querySelector("details.menu[open],#found:not([hidden])");
  if (document.hidden || pressed || busy) return plan();
  try { await show(location.href, false); } catch { outdated(); plan(); }
}
function outdated() {
  if ("problem" in document.querySelector("main").dataset) return;
  const text = "No answer from the server. Numbers are of " + renewed.toLocaleTimeString() + ".";
  if (stale.textContent !== text) stale.textContent = text;
  stale.hidden = false;
}
function go(address) {
  history.pushState(null, "", address);
  show(location.href, true).catch(() => location.reload());
}
// A link to another view of the same page, and a form that asks for one, exchange what is shown in place.
addEventListener("click", (event) => {
  const link = event.target.closest?.("main a");
  closeMenus(event.target.closest?.("details.menu"));
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
  const to = new URL(link.href?.baseVal ?? link.href, location.href);
  if (to.origin !== location.origin || to.pathname !== location.pathname || to.hash) return;
  event.preventDefault();
  go(to.search || to.pathname);
});
addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "get" || !form.closest(".spans")) return;
  event.preventDefault();
  go("?" + new URLSearchParams([...new FormData(form)].filter(([name, value]) => value || name === "value" || name === "not")));
});
function closeMenus(but) {
  document.querySelectorAll("details.menu[open]").forEach((each) => { if (each !== but) each.open = false; });
}
addEventListener("popstate", () => show(location.href, true).catch(() => location.reload()));
document.addEventListener("visibilitychange", () => { if (!document.hidden) renew(); });

// --- reading a curve: the table of its numbers says what stands where the pointer is ---
function decorate() {
  document.querySelectorAll("figure.chart").forEach(prepare);
  document.querySelectorAll("[data-origin]").forEach((each) => { each.textContent = base(); });
  if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(copying);
}
function copying(box) {
  const button = document.createElement("button"), text = box.textContent;
  button.type = "button"; button.textContent = "Copy";
  button.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { button.textContent = said.textContent = "Copied"; }));
  box.prepend(button);
}
function base() {
  const path = new URL(document.querySelector("header .brand")?.getAttribute("href") || ".", location.href).pathname;
  return location.origin + path.replace(/\/$/, "");
}
function prepare(figure) {
  const svg = figure.querySelector("svg"), plot = figure.querySelector(".plot");
  const rows = [...figure.querySelectorAll(".points tbody tr")], [from, to, every] = ["from", "to", "every"].map((name) => Number(figure.dataset[name] || 0));
  if (!rows.length || to <= from) return;
  const starts = rows.map((row, n) => (every ? from + n * every : Number(row.dataset.s)));
  const lines = "lines" in figure.dataset ? [...figure.querySelectorAll(".points thead th")].slice(1, -1).map((head) => head.textContent.trim()) : [];
  const column = (n) => rows.map((row) => parseFloat(row.cells[n].textContent.replaceAll(",", "")));
  const mosts = rows.map((row) => parseFloat(row.cells[1].textContent.split(" to ").pop().replaceAll(",", "")));
  const counts = column(1), total = counts.reduce((so, count) => so + count, 0);
  const ground = Number(svg.querySelector(".base")?.getAttribute("y") ?? svg.clientHeight); // below are the times
  const roof = Math.min(ground, ...[...svg.querySelectorAll(".grid")].map((each) => Number(each.getAttribute("y"))));
  const box = document.createElementNS(svg.namespaceURI, "rect");
  const tip = document.createElement("div");
  tip.className = "tip"; tip.hidden = true;
  plot.append(tip);
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", "Curve: arrow keys read it, Enter zooms in, Escape zooms out");
  let at = -1, picked = null;
  const down = (event) => event.clientY - svg.getBoundingClientRect().top;
  const part = (event) => Math.min(1, Math.max(0, (event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth));
  const index = (x) => Math.max(0, starts.findLastIndex((start) => start <= from + x * (to - from)));
  const end = (n) => (n + 1 < starts.length ? starts[n + 1] : to);
  const mark = (low, high, name) => {
    box.setAttribute("class", name); box.setAttribute("y", roof); box.setAttribute("height", ground - roof);
    box.setAttribute("x", (low * 100) + "%"); box.setAttribute("width", Math.max(0, (high - low) * 100) + "%");
    if (!box.isConnected) svg.append(box);
  };
  const x = (t) => (t - from) / (to - from);
  const say = (count, words, y, before) => {
    const large = document.createElement("b"), second = document.createElement("span");
    large.textContent = count;
    second.textContent = before || "";
    tip.replaceChildren(large, " " + words, ...(before ? [" ", second] : []));
    tip.hidden = false;
    if (y !== undefined) tip.style.top = Math.max(0, y - tip.offsetHeight - 14) + "px";
  };
  // Of several lines all are said, each with its count.
  const sayLines = (words, count, y) => {
    tip.replaceChildren(words, ...lines.map((line, n) => Object.assign(document.createElement("div"), { textContent: " " + line + ": " + count(n + 1) })));
    tip.hidden = false;
    if (y !== undefined) tip.style.top = Math.max(0, Math.min(y, ground) - tip.offsetHeight / 2) + "px";
  };
  const read = (n, aloud, y) => {
    at = n;
    reading = { figure: [...document.querySelectorAll("figure.chart")].indexOf(figure), start: starts[n] };
    const cells = [...rows[n].cells].map((cell) => cell.textContent.trim()), [when, count] = cells, state = cells.at(-1);
    const part = total && !("apart" in figure.dataset) && !count.includes(" to ") ? ", " + Math.round(counts[n] * 100 / total) + "\u00a0%" : "";
    const words = { open: " (still counting)", partial: " (partly)" }[state] || "";
    if (lines.length) sayLines(when + words, (each) => cells[each], y);
    else say(count, when + part + words, y, cells.length > 3 && cells[2] ? rows[n].cells[2].title + ": " + cells[2] + (cells[3] && ", now " + cells[3]) : "");
    mark(x(starts[n]), x(end(n)), "at");
    const left = x(lines.length ? end(n) : starts[n]) * svg.clientWidth + (lines.length ? 12 : 0);
    tip.style.left = plot.clientWidth - svg.clientWidth + Math.max(0, Math.min(left, svg.clientWidth - tip.offsetWidth)) + "px";
    if (aloud) said.textContent = tip.textContent.replace(" ", ", ");
  };
  const leave = () => { tip.hidden = true; box.remove(); at = -1; picked = reading = null; pressed = false; };
  figure.addEventListener("read", ({ detail }) => { if (starts.includes(detail)) read(starts.indexOf(detail), false); });
  const zoom = (low, high) => {
    const query = new URLSearchParams(location.search);
    ["last", "step", "after"].forEach((name) => query.delete(name));
    query.set("from", String(low)); query.set("to", String(high));
    go("?" + query);
  };
  svg.addEventListener("pointermove", (event) => {
    if (picked === null) return read(index(part(event)), false, down(event));
    const other = index(part(event)), [low, high] = [Math.min(picked, other), Math.max(picked, other)];
    mark(x(starts[low]), x(end(high)), "picked");
    const cell = (row, n) => row.cells[n].textContent.trim();
    const whole = cell(rows[low], 0).split(" - ")[0] + " - " + cell(rows[high], 0).split(" - ").pop();
    const sumOf = (some) => some.slice(low, high + 1).reduce((so, count) => so + count, 0), sum = sumOf(counts);
    if (lines.length) return sayLines(whole, (each) => sumOf(column(each)).toLocaleString("en"), down(event));
    const most = sumOf(mosts), bounds = sum.toLocaleString("en") + (most > sum ? " to " + most.toLocaleString("en") : "");
    say(bounds + cell(rows[low], 1).replace(/^[\d.,]+( to [\d.,]+)?/, ""), whole, down(event));
  });
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    picked = index(part(event)); pressed = true; svg.setPointerCapture(event.pointerId); event.preventDefault(); plot.focus();
  });
  svg.addEventListener("pointerup", (event) => {
    const first = picked, other = index(part(event));
    leave();
    const low = Math.min(first, other), high = Math.max(first, other);
    const into = low !== high || (event.pointerType === "mouse" && end(low) - starts[low] >= 3600); // a finger reads
    if (first !== null && into) zoom(starts[low], end(high));
  });
  svg.addEventListener("pointercancel", leave);
  svg.addEventListener("pointerleave", () => { if (picked === null) leave(); });
  plot.addEventListener("blur", leave);
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    const far = { Home: 0, End: rows.length - 1 }[event.key];
    if (step || far !== undefined) read(Math.min(rows.length - 1, Math.max(0, far ?? (at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))), true);
    else if (event.key === "Enter" && at >= 0) zoom(starts[Math.max(0, at - 5)], end(Math.min(rows.length - 1, at + 5)));
    else if (event.key === "Escape") { const out = document.querySelector("a.out"); if (out) go(out.href); }
    else return;
    event.preventDefault();
  });
}

// --- finding links while one types: the list of the table's page, which the overview shows above its cards ---
let pause, asked = 0;
addEventListener("input", ({ target }) => {
  if (target.id !== "q") return;
  clearTimeout(pause);
  pause = setTimeout(() => find(target).catch(outdated), 200);
});
async function find(input) {
  const number = ++asked, box = document.getElementById("found"), list = document.getElementById("list");
  if (box && !input.value) { box.hidden = true; return; }
  const address = input.form.action + "?" + new URLSearchParams(new FormData(input.form));
  const page = new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
  const found = page.getElementById("list");
  if (number !== asked || !found) return;
  if (list) { list.replaceWith(found); history.replaceState(null, "", address); }
  else { box.replaceChildren(...found.childNodes); box.hidden = false; }
  said.textContent = (list ? found : box).querySelectorAll("tbody tr").length + " links";
}

// --- keys and the list of zones ---
addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const open = event.target.closest?.("details.menu[open]");
    closeMenus();
    return open?.querySelector("summary").focus();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const menu = document.getElementById("range"), forms = menu?.querySelectorAll("form");
  const found = {
    "/": document.getElementById("q"),
    c: forms?.[0]?.querySelector("input[type=date]"),
    x: forms?.[1]?.querySelector("a"),
  }[event.key.toLowerCase()];
  if (found) {
    if (menu?.contains(found)) { closeMenus(menu); menu.open = true; }
    found.focus();
    return event.preventDefault();
  }
  const way = event.target === document.body && { ArrowLeft: ".step[rel=prev]", ArrowRight: ".step[rel=next]" }[event.key];
  const link = way ? document.querySelector(way) : [...document.querySelectorAll("[aria-keyshortcuts]")].find((each) => each.getAttribute("aria-keyshortcuts") === event.key.toUpperCase());
  if (link) { event.preventDefault(); go(link.href); }
});
document.addEventListener("focusin", (event) => {
  const list = event.target.name === "tz" && document.getElementById("zones");
  if (!list || list.childElementCount || !Intl.supportedValuesOf) return;
  const zones = Intl.supportedValuesOf("timeZone"), own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  list.append(...[own, ...zones].map((zone) => new Option(zone)));
});

decorate();
plan();
