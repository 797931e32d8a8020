// Replaces a part of the page by what the server has now. Ticks, focus and what was scrolled stay.
const place = (element) => element.closest("form")?.action ?? element.href ?? element.value ?? element.ariaLabel;

export async function reload(id) {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [old, made] = [document, page].map((each) => each.getElementById(id));
  if (old.innerHTML === made.innerHTML) return;
  for (const ticked of old.querySelectorAll("input:checked")) {
    made.querySelector(`input[value="${CSS.escape(ticked.value)}"]`)?.setAttribute("checked", "");
  }
  const focused = old.contains(document.activeElement) && place(document.activeElement);
  const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  old.replaceWith(made);
  for (const [at, each] of made.querySelectorAll(".scroll").entries()) each.scrollLeft = scrolled[at] ?? 0;
  if (focused) [...made.querySelectorAll("a, button, input, .scroll")].find((each) => place(each) === focused)?.focus();
}
