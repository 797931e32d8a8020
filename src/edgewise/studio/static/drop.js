// The whole page takes what is dropped on it, and the upload shows its progress. The form works without it.
const form = document.getElementById("drop");
const input = document.getElementById("files");
const state = document.getElementById("upload-state");
const bar = document.getElementById("upload-progress");
const words = state.querySelector("[role=status]");
const problem = document.getElementById("upload-problem");
let depth = 0;

const holdsFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
const mark = (change) => {
  depth = Math.max(0, depth + change);
  document.body.classList.toggle("dropping", depth > 0);
};
addEventListener("dragenter", (event) => holdsFiles(event) && mark(1));
addEventListener("dragleave", (event) => holdsFiles(event) && mark(-1));
addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
addEventListener("drop", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  mark(-depth);
  const folder = [...event.dataTransfer.items].some((item) => item.webkitGetAsEntry?.()?.isDirectory);
  if (folder) say("A folder can't be dropped.", "Pack it first: zip -r model.zip folder/");
  else send(event.dataTransfer.files);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  send(input.files);
});

function say(message, advice) {
  state.hidden = true;
  const lines = [document.createElement("p"), document.createElement("p")];
  lines[0].append(Object.assign(document.createElement("strong"), { textContent: message }));
  lines[1].append(advice ?? "");
  problem.replaceChildren(...lines);
  problem.hidden = false;
}

function send(files) {
  if (!files.length) return;
  const request = new XMLHttpRequest();
  const body = new FormData();
  for (const file of files) body.append("file", file);
  const name = files.length > 1 ? `${files.length} files` : files[0].name;
  problem.hidden = true;
  state.hidden = false;
  bar.value = 0;
  words.textContent = `Uploading ${name}`;
  request.upload.addEventListener("progress", (event) => {
    if (event.lengthComputable) bar.value = event.loaded / event.total;
  });
  request.upload.addEventListener("load", () => {
    bar.removeAttribute("value");
    words.textContent = `Reading ${name}`;
  });
  request.addEventListener("error", () => say("The upload was interrupted.", "Is the studio still running?"));
  request.addEventListener("load", () => {
    if (request.status < 400) location.assign(request.responseURL);
    else {
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      const told = [...page.querySelectorAll("main .problem p")].map((line) => line.textContent);
      say(told[0] ?? request.responseText.slice(0, 300), told[1]);
    }
  });
  request.open("POST", form.action);
  request.send(body);
}
