// Keys: g and a letter open a page, / goes to the search box, j and k walk through a list, ? lists the keys.
// Loaded in the head, before anything is shown, so that no key is lost while the page and its modules load. What a key does is looked up when it is
// pressed; an action is a click on its link, which is a page of its own until the modules make it a dialog.
{
  // A dialog that was just closed keeps the focus until the next frame: nobody types there any more.
  const isTyping = (element) => element.closest?.("input, textarea, select, [contenteditable]") && !element.matches("input[type=range], input[type=checkbox], dialog:not([open]) *");
  const showHelp = () => document.getElementById("help")?.showModal();
  const LISTED = "main :is(.item, .listed, .trash tbody tr, .sessions tbody tr)"; // what j and k walk through
  let isGoing = false;

  const walk = (step) => {
    const items = [...document.querySelectorAll(LISTED)].filter((each) => each.offsetParent);
    if (!items.length) return;
    const at = items.indexOf(document.activeElement.closest?.(LISTED));
    const next = items[Math.min(Math.max(at + step, 0), items.length - 1)];
    next.tabIndex = -1; // of rows that are not given one
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };

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
      document.querySelector("[data-focus-key]")?.focus();
    } else if (event.key === "?") {
      showHelp();
    } else if (event.key === "j" || event.key === "k") {
      walk(event.key === "j" ? 1 : -1);
    } else if (event.key === "Enter" && event.target.matches?.(LISTED)) {
      event.target.querySelector("a.id, a.name")?.click();
    } else {
      const place = document.activeElement.closest?.(".item:has([data-key])") ?? document; // the actions of the item that one has walked to
      const action = place.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
      if (action) { event.preventDefault(); action.click(); }
    }
  });
  document.addEventListener("click", (event) => { if (event.target.closest?.("#keys")) showHelp(); });
}
