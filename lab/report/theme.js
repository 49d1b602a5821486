// Light or dark: the system decides until the reader chooses. Runs in the head, so that no page flashes.
"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const KEY = "varmix-theme";

  // Storage may be unavailable for pages opened from a folder; the choice then lasts until the page is closed.
  const recall = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem(KEY, theme); } catch { /* see above */ } };
  const current = () => root.dataset.theme || (system.matches ? "dark" : "light");

  const kept = recall();
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;

  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const label = () => { button.textContent = current() === "dark" ? "Light theme" : "Dark theme"; };
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = current() === "dark" ? "light" : "dark";
      keep(root.dataset.theme);
      label();
    });
    system.addEventListener("change", label);
    label();
  });
})();
