// A link to a number opens it; the report comes once it is drawn, and is sorted and folded as in its own page.
const open = () => {
  const found = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (found && found.popover) found.showPopover();
};
window.addEventListener("hashchange", open);
open();
const part = document.getElementById("part");
const liven = async () => {
  await import(part.dataset.script);
};
if (!part.dataset.from) liven();
else {
  part.textContent = "Drawing tables and charts …";
  try {
    const answer = await fetch(part.dataset.from);
    const text = await answer.text();
    if (answer.ok) {
      part.innerHTML = text; // the studio's own fragment, with everything in it escaped
      liven();
    } else {
      const problem = new DOMParser().parseFromString(text, "text/html").querySelector(".problem");
      part.replaceChildren(problem ?? "The report could not be drawn.");
    }
  } catch {
    part.textContent = "The studio does not answer: load this page again.";
  }
}
