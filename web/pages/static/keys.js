// The keyboard: single keys and `g` chords, never while somebody types. The settings page turns
// them off for this browser (some people dictate, and each word would be a command).
//
// j and k move between the elements marked data-item; o follows the link in the current one that
// is marked data-open, or its first; r and a move the focus to its button marked data-key="r" or
// "a", so that it takes an Enter of its own to decide anything.
"use strict";
(() => {
  const STORED = "muster.keys";
  const CHORD_MS = 1500;
  const PLACES = {
    a: "/attention", m: "/messages", t: "/tasks", c: "/chief", w: "/sessions", r: "/routes",
    p: "/plugins", u: "/audit", s: "/settings",
  };
  const help = document.getElementById("keys-help");
  const isOff = () => localStorage.getItem(STORED) === "off";
  let chordUntil = 0;

  const items = () => [...document.querySelectorAll("[data-item]")];
  const current = () => document.activeElement?.closest?.("[data-item]") || null;

  function move(step) {
    const all = items();
    if (!all.length) return;
    const at = all.indexOf(current());
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
    const item = all[Math.min(all.length - 1, Math.max(0, next))];
    if (!item.hasAttribute("tabindex")) item.tabIndex = -1;
    item.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  }

  function follow() {
    const item = current();
    (item?.querySelector("a[data-open]") || item?.querySelector("a[href]"))?.click();
  }

  function point(key) {
    const item = current() || (items().length === 1 ? items()[0] : null);
    item?.querySelector(`[data-key="${key}"]`)?.focus();
  }

  function isTyping(target) {
    return target.isContentEditable || target.closest("input, textarea, select, dialog[open]");
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.isComposing || isTyping(event.target) || isOff()) return;
    if (event.timeStamp < chordUntil) {
      chordUntil = 0;
      if (PLACES[event.key]) location.assign(PLACES[event.key]);
      return;
    }
    switch (event.key) {
      case "g": chordUntil = event.timeStamp + CHORD_MS; break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "o": follow(); break;
      case "r": point("r"); break;
      case "a": point("a"); break;
      case "/": {
        const search = document.querySelector("[data-search]");
        if (!search) return;
        event.preventDefault();
        search.focus();
        break;
      }
      case "?": if (help && !help.open) help.showModal(); break;
      default:
    }
  });

  const box = document.getElementById("keys-on");
  if (box) {
    box.checked = !isOff();
    box.disabled = false;
    box.addEventListener("change", () => {
      localStorage.setItem(STORED, box.checked ? "on" : "off");
    });
  }
})();
