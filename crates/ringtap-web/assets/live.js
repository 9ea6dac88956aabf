// Replaces the parts of the page that changed. The server made them, and escaped every text in them.
"use strict";

const waiting = new Map();
const liveness = document.getElementById("liveness");
const grade = document.getElementById("grade");
const source = new EventSource("/live");
let heard = Date.now();
let isPressed = false;

// Somebody has selected something in it.
function isRead(part) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(part, true);
}

function replace(id, html) {
  const part = document.getElementById(id);
  if (!part) return;
  // Between press and release the link beneath must stay the same.
  if (isPressed || isRead(part)) {
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

function goOn() {
  for (const [id, html] of Array.from(waiting)) replace(id, html);
}

function say(text) {
  if (liveness.textContent !== text) liveness.textContent = text;
  document.body.classList.toggle("old", text !== "live");
}

source.addEventListener("section", (event) => {
  const part = JSON.parse(event.data);
  replace(part.id, part.html);
});
source.addEventListener("tick", () => {
  heard = Date.now();
  say("live");
});
source.addEventListener("error", () => {
  say(source.readyState === EventSource.CLOSED
    ? "not live: load the page again" : "not live: the program does not answer; trying again");
});
setInterval(() => {
  const seconds = Math.round((Date.now() - heard) / 1000);
  if (seconds > 4 && liveness.textContent === "live") say(`not live: nothing came for ${seconds} s`);
}, 1000);
document.addEventListener("selectionchange", goOn);
document.addEventListener("pointerdown", () => { isPressed = true; });
for (const end of ["pointerup", "pointercancel"]) {
  document.addEventListener(end, () => {
    isPressed = false;
    // After the click that comes of it.
    setTimeout(goOn, 0);
  });
}
