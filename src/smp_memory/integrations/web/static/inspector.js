// Adds to the pages, which work without it: search as you type, live updates, dialogs, the memory beside a list, keys.
// One mechanism serves all of them: fetch a page, and swap the regions that it and this page have in common.
import { listen } from "./live.js";

const parser = new DOMParser();
let newest = 0;

async function fetchPage(address, part = "") {
  const answer = await fetch(address, { headers: { accept: "text/html", "x-smp-part": part } });
  return parser.parseFromString(await answer.text(), "text/html");
}

// Swap regions by id. An element that has the focus keeps it, open details stay open, and what is ticked stays ticked.
function swap(page, ids) {
  for (const id of ids) {
    const [there, here] = [page.getElementById(id), document.getElementById(id)];
    if (!here || !there) continue;
    if (here.innerHTML === there.innerHTML) continue;
    const focused = here.contains(document.activeElement) ? document.activeElement : null;
    const selector = focused?.id ? `#${CSS.escape(focused.id)}` : focused?.getAttribute("href") ? `[href="${CSS.escape(focused.getAttribute("href"))}"]` : focused?.dataset.href ? `[data-href="${CSS.escape(focused.dataset.href)}"]` : null;
    const open = [...here.querySelectorAll("details")].map((each) => each.open);
    const value = focused?.value;
    const ticked = [...here.querySelectorAll("form[method=post] input[type=checkbox]:checked")].map((each) => each.name);
    here.replaceChildren(...document.importNode(there, true).childNodes);
    [...here.querySelectorAll("details")].forEach((each, at) => { each.open = open[at] ?? each.open; });
    for (const each of here.querySelectorAll("form[method=post] input[type=checkbox]")) if (ticked.includes(each.name)) each.checked = true;
    const again = selector && here.querySelector(selector);
    if (again) { if (value !== undefined && "value" in again) again.value = value; again.focus({ preventScroll: true }); }
  }
}

// Update the regions; those that take longer to compute come later, with a second request.
async function update(address, ids, later = []) {
  const mine = ++newest;
  document.body.classList.add("busy");
  try {
    const page = await fetchPage(address, later.length ? ids[0] : "");
    if (mine === newest) swap(page, ids);
    const whole = later.length && mine === newest ? await fetchPage(address) : null;
    if (whole && mine === newest) swap(whole, later);
  } catch {
    if (mine === newest) toast("The inspector does not answer. Is `smp web` still running?", "bad");
  } finally {
    if (mine === newest) document.body.classList.remove("busy");
  }
}

// -- forms that answer as you type

function addressOf(form) {
  const data = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "") data.append(name, value);
  const text = data.toString();
  return form.getAttribute("action") + (text ? `?${text}` : "");
}

for (const form of document.querySelectorAll("form[data-instant]")) {
  const ids = form.dataset.instant.split(" ");
  const later = form.dataset.later?.split(" ") ?? [];
  let timer = 0;
  const run = () => {
    const address = addressOf(form);
    history.replaceState(null, "", address);
    update(address, ids, later);
  };
  form.addEventListener("input", (event) => {
    if (event.target.type === "range") event.target.nextElementSibling.value = rangeText(event.target);
    clearTimeout(timer);
    timer = setTimeout(run, 60);
  });
  form.addEventListener("change", (event) => {
    if (event.target.name === "kind") { form.submit(); return; }
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); run(); });
}

function rangeText(range) {
  return range.step < 1 ? Number(range.value).toFixed(2) : Number(range.value).toLocaleString("en") + range.dataset.unit;
}

// What is folded on a phone stands open on a wider screen, also for those that do not know `::details-content`.
if (matchMedia("(min-width: 761px)").matches) for (const each of document.querySelectorAll("details.fold")) each.open = true;

// -- the memory beside a list, and dialogs

const isWide = () => matchMedia("(min-width: 1101px)").matches;

let newestAside = 0;

async function showAside(link, mayLeave = true) {
  const mine = ++newestAside;
  const page = await fetchPage(link.href);
  if (mine !== newestAside) return; // another one was chosen meanwhile
  const [there, here] = [page.getElementById("memory"), document.getElementById("aside")];
  if (!there || !here) { if (mayLeave) location.href = link.href; return; }
  here.replaceChildren(...document.importNode(there, true).childNodes);
  here.scrollTop = 0;
  document.querySelectorAll(".item.chosen").forEach((each) => each.classList.remove("chosen"));
  link.closest(".item")?.classList.add("chosen");
}

// The memory that answers best is shown at once, so that nobody has to guess what the empty column is for.
const scoreOf = (item) => Number.parseFloat(item.querySelector(".score").firstChild.textContent) || 0;
const best = [...document.querySelectorAll("#told .panel:not(.out) .item")].sort((one, other) => scoreOf(other) - scoreOf(one))[0];
if (best && isWide() && document.getElementById("aside")) showAside(best.querySelector("a[data-aside]"), false).catch(() => {});

const dialog = document.getElementById("dialog");

let newestDialog = 0;

async function showDialog(address) {
  const mine = ++newestDialog;
  const page = await fetchPage(address);
  if (mine !== newestDialog) return;
  const there = page.getElementById("action");
  if (!there) { location.href = address; return; }
  dialog.replaceChildren(document.importNode(there, true));
  dialog.setAttribute("aria-label", there.querySelector("h1")?.textContent ?? "Action");
  if (!dialog.open) dialog.showModal();
  dialog.querySelector("[autofocus], textarea, input:not([type=hidden]), button")?.focus();
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest("a");
  if (link?.dataset.dialog !== undefined) {
    event.preventDefault();
    showDialog(link.href).catch(() => { location.href = link.href; });
  } else if (link?.dataset.aside !== undefined && isWide() && document.getElementById("aside") && !dialog.open) {
    event.preventDefault();
    showAside(link).catch(() => { location.href = link.href; });
  } else if (event.target.closest("[data-close]") && dialog.open) {
    event.preventDefault();
    dialog.close();
  } else if (!link && !event.target.closest("button, input, summary, label, select, textarea") && !String(getSelection())) {
    event.target.closest(".item")?.querySelector("a.id")?.click();
  }
});
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

// -- notices

const MOST_TOASTS = 4; // more would hide the page while agents write

export function toast(text, kind = "", href = "") {
  const box = document.createElement(href ? "a" : "div");
  box.className = `toast ${kind}`;
  if (href) box.href = href;
  box.textContent = text;
  const shown = document.getElementById("toasts");
  shown.append(box);
  while (shown.childElementCount > MOST_TOASTS) shown.firstElementChild.remove();
  setTimeout(() => box.remove(), 6000);
}

// -- light and dark

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  try { localStorage.setItem("smp-theme", root.dataset.theme); } catch { /* it holds for this page only */ }
});

// -- live

function liveRegions() {
  return [...document.querySelectorAll("[data-live][id]")].map((each) => each.id);
}

// One update at a time: when changes come faster than a page is made, each page that is made is shown, and the last one is made after the last change.
let isRefreshing = false;
let isStale = false;

async function refresh() {
  isStale = true;
  if (isRefreshing) return;
  isRefreshing = true;
  while (isStale) {
    isStale = false;
    const ids = liveRegions();
    if (ids.length) await update(location.href, ids);
  }
  isRefreshing = false;
}

listen({
  onChange(change) {
    refresh();
    for (const each of change.new.slice(-3)) {
      const [session, id] = [each.ref.slice(0, each.ref.indexOf("/")), each.ref.slice(each.ref.indexOf("/") + 1)];
      toast(`${each.ref}  ${each.author ? each.author + ": " : ""}${each.text}`, "new", `/memory/${encodeURIComponent(session)}/${encodeURIComponent(id)}`);
    }
  },
  onReconnect: refresh,
});
