// A conversation in which a turn runs: what the agent says appears as it says it, as text alone.
// A piece names the place at which it begins (in code points); where one was missed a … stands
// for it. Once the turn has ended the page gets the whole of it from the server.
"use strict";
(() => {
  const heard = new Map(); // by turn: { text, end }, also while its element is being replaced

  function show(turn) {
    const place = document.querySelector(`[data-turn="${Number(turn)}"]`);
    const known = heard.get(turn);
    if (place && known && place.textContent !== known.text) place.textContent = known.text;
  }

  document.addEventListener("muster:turn.delta", ({ detail }) => {
    const known = heard.get(detail.turn) || { text: "", end: 0 };
    if (detail.at < known.end) return;
    const gap = detail.at > known.end ? "…" : "";
    heard.set(detail.turn, {
      text: known.text + gap + detail.text,
      end: detail.at + [...detail.text].length,
    });
    show(detail.turn);
  });

  new MutationObserver(() => {
    for (const turn of heard.keys()) show(turn);
  }).observe(document.getElementById("main"), { childList: true, subtree: true });
})();
