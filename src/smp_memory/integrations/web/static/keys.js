// Keys: g and a letter open a page, / searches, j and k walk through a list, ? lists the keys.
const isTyping = (element) => element.closest("input, textarea, select, [contenteditable]") && !element.matches("input[type=range], input[type=checkbox]");

function walk(step) {
  const items = [...document.querySelectorAll("main .item")].filter((each) => each.offsetParent);
  if (!items.length) return;
  const at = items.indexOf(document.activeElement.closest?.(".item"));
  const next = items[Math.min(Math.max(at + step, 0), items.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

export function setUpKeys({ showDialog }) {
  const help = document.getElementById("help");
  document.getElementById("keys").addEventListener("click", () => help.showModal());
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && isTyping(event.target)) { event.target.blur(); return; }
    if (isTyping(event.target)) return;
    const wasGoing = isGoing;
    isGoing = false;
    if (wasGoing) {
      const link = document.querySelector(`[data-key="g ${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); }
    } else if (event.key === "g") {
      isGoing = true;
    } else if (event.key === "/") {
      event.preventDefault();
      (document.getElementById("q") ?? document.querySelector("[data-focus-key]")).focus();
    } else if (event.key === "?") {
      help.showModal();
    } else if (event.key === "j" || event.key === "k") {
      walk(event.key === "j" ? 1 : -1);
    } else if (event.key === "Enter" && event.target.matches?.(".item")) {
      event.target.querySelector("a.id")?.click();
    } else {
      const action = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
      if (action) { event.preventDefault(); if (action.dataset.dialog !== undefined) showDialog(action.href); else action.click(); }
    }
  });
}
