// Ticking all runs of a page, and counting those that are ticked.
const form = document.getElementById("ticked");
if (form) {
  const boxes = [...form.querySelectorAll("input[name=run]")];
  const all = document.getElementById("tick-all");
  const count = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    all.checked = ticked === boxes.length;
    all.indeterminate = ticked > 0 && !all.checked;
    document.getElementById("how-many").textContent = ticked ? `With the ${ticked} ticked:` : "Tick runs to compare, export, tag or remove them.";
    form.querySelector(".actions").classList.toggle("none", !ticked);
    for (const button of form.querySelectorAll(".actions button")) button.disabled = ticked < Number(button.dataset.least ?? 1);
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
  });
  form.addEventListener("change", count);
  window.addEventListener("pageshow", count); // a browser that goes back restores the ticks
  count();
}
