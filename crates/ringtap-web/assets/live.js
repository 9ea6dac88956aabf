// Replaces the parts of the page that changed. The server made them, and escaped every text in them.
"use strict";

const waiting = new Map();
const liveness = document.getElementById("liveness");
const source = new EventSource("/live");

function isRead(part) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
}

function replace(id, html) {
  const part = document.getElementById(id);
  if (!part) return;
  if (isRead(part)) {
    waiting.set(id, html);
    return;
  }
  waiting.delete(id);
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const open = Array.from(part.querySelectorAll("details[open]"), (one) => one.id);
  const isSummary = focused && focused.tagName === "SUMMARY";
  const name = focused && (isSummary ? focused.parentElement.id : focused.id);
  part.outerHTML = html;
  for (const one of open) {
    const details = document.getElementById(one);
    if (details) details.open = true;
  }
  const again = name && document.getElementById(name);
  if (again) (isSummary ? again.querySelector("summary") : again).focus({ preventScroll: true });
}

source.addEventListener("section", (event) => {
  const part = JSON.parse(event.data);
  replace(part.id, part.html);
});
source.addEventListener("open", () => { liveness.textContent = "live"; });
source.addEventListener("error", () => {
  liveness.textContent = source.readyState === EventSource.CLOSED
    ? "not live: load the page again" : "not live: the program does not answer; trying again";
});
document.addEventListener("selectionchange", () => {
  for (const [id, html] of waiting) replace(id, html);
});
