// The command line follows the form, and so does the page's address; a button copies the command.
const form = document.querySelector("form.new");
const [shown, show, copy, copied] = ["command", "show", "copy", "copied"].map((id) => document.getElementById(id));
let asked = 0;
let timer;

// What a browser would send, but for empty fields, and for the "no" before the "yes" of a box.
const query = () =>
  new URLSearchParams(
    [...new FormData(form)].filter(([name, value], at, all) => value.trim() && !(value === "no" && all[at + 1]?.[0] === name)),
  );

const follow = async () => {
  const number = ++asked;
  const words = query();
  try {
    const answer = await (await fetch(`${location.pathname}/command?${words}`)).json();
    if (number !== asked) return; // the form has changed since
    shown.textContent = answer.command || answer.problem;
    copy.hidden = !answer.command;
    history.replaceState(null, "", `${location.pathname}?${words}`);
  } catch {
    shown.textContent = "The studio does not answer.";
  }
};

form.addEventListener("input", () => {
  clearTimeout(timer);
  copied.textContent = "";
  timer = setTimeout(follow, 200);
});
// Two clicks make one job.
let sent = 0;
form.addEventListener("submit", (event) => {
  if (event.timeStamp - sent < 2000 && sent) event.preventDefault();
  else sent = event.timeStamp;
});
copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(shown.textContent);
    copied.textContent = "Copied";
  } catch {
    // A page without TLS has no clipboard: the text is selected instead.
    getSelection().selectAllChildren(shown);
    copied.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl-C";
  }
});
show.hidden = true;
copy.hidden = shown.textContent.startsWith("Fill in");
document.getElementById("problems")?.focus();
