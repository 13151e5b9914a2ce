// Set the theme before the page is painted. Loaded in the head, without waiting for anything.
{
  let chosen = null;
  try { chosen = localStorage.getItem("smp-theme"); } catch { /* storage is off: the system's theme holds */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
