// The page of a job that runs or waits: moves with it, and is loaded again when it has ended.
import { poll, watch } from "./events.js";

const SELDOM_MS = 15000; // beside the stream, for a job that another server carries out
const job = document.getElementById("job");
const log = document.getElementById("log");

function item(run) {
  const li = document.createElement("li");
  const name = li.appendChild(document.createElement(run.saved ? "a" : "span"));
  if (run.saved) name.href = `/runs/${encodeURIComponent(run.id)}`;
  name.textContent = run.label;
  li.append(`: ${run.status}`);
  return li;
}

function card(one) {
  const article = document.createElement("article");
  article.className = "card";
  article.append(...["h2", "p", "p"].map((tag) => document.createElement(tag)));
  const [title, figure, basis] = article.children;
  title.textContent = one.label;
  figure.className = "figure";
  const name = document.createElement("small");
  name.textContent = one.name;
  figure.append(`${one.value} `, name);
  basis.className = "soft";
  basis.textContent = one.basis;
  article.insertAdjacentHTML("beforeend", one.chart); // made of numbers by the server
  return article;
}

function show(state) {
  if (state.id !== job.dataset.id) return;
  if (state.status !== job.dataset.status) {
    location.reload();
    return;
  }
  for (const field of job.querySelectorAll("[data-field]:not([data-field=status])")) {
    const words = state[field.dataset.field] ?? "";
    if (field.textContent !== words) field.textContent = words;
  }
  const pill = job.querySelector("[data-field=status]");
  if (pill.textContent !== "stopping" && pill.textContent !== state.shown) {
    pill.textContent = state.shown;
    pill.className = `pill ${state.shown === "waiting" ? "poor" : "fair"}`;
  }
  const bar = job.querySelector("progress");
  if (state.share === null) bar.removeAttribute("value");
  else bar.value = state.share;
  document.getElementById("headlines").replaceChildren(...state.headlines.map(card).reverse());
  document.getElementById("runs").replaceChildren(...state.runs.map(item));
  const text = state.log.join("\n");
  if (log.textContent !== text) {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    log.textContent = text;
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
}

async function look() {
  try {
    const answer = await fetch(`/jobs/${encodeURIComponent(job.dataset.id)}/state`);
    if (answer.ok) show(await answer.json());
  } catch {
    job.querySelector("[data-field=waiting]").textContent = "The studio does not answer: what is shown here may be out of date.";
  }
}

log.scrollTop = log.scrollHeight;
watch((event) => event.kind === "job" && show(event.data));
look();
poll(look);
setInterval(look, SELDOM_MS);
