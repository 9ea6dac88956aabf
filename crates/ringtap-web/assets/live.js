// Replaces the parts of the page that changed. The server made them, and escaped every text in them.
"use strict";

const waiting = new Map();
const liveness = document.getElementById("liveness");
const grade = document.getElementById("grade");
const source = new EventSource("/live");

// Somebody has selected something in it.
function isRead(part) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(part, true);
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
  const places = Array.from(part.querySelectorAll(".wide"), (wide) => wide.scrollLeft);
  const isTable = focused && focused.classList.contains("wide");
  const name = focused && focused.id;
  part.innerHTML = html;
  part.querySelectorAll(".wide").forEach((wide, at) => { wide.scrollLeft = places[at] || 0; });
  const again = isTable ? part.querySelector(".wide") : name && document.getElementById(name);
  if (again) again.focus({ preventScroll: true });
  if (id === "verdict") tellGrade(part);
}

// Read out once, when it changes, without its numbers.
function tellGrade(part) {
  const faults = part.querySelectorAll("p.bad").length;
  const says = faults ? `${faults} things are wrong` : part.querySelector("p.warn") ? "losses are not known" : "no loss is known";
  if (grade.textContent !== says) grade.textContent = says;
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
