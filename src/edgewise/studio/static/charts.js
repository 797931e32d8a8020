"use strict";
// Adds "SVG · PNG · CSV" below each chart, also of parts that come later. The page reads without any of it.
{
  const save = (name, blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  // A file has no page around it: the colours of the reader's scheme go into the drawing.
  const drawing = (svg) => {
    const style = getComputedStyle(document.body);
    const text = new XMLSerializer().serializeToString(svg);
    return text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  };
  const paint = (svg) =>
    new Promise((resolve, reject) => {
      const { width, height } = svg.viewBox.baseVal;
      const copy = svg.cloneNode(true);
      copy.setAttribute("width", width);
      copy.setAttribute("height", height);
      const image = new Image();
      image.onerror = reject;
      image.onload = () => {
        const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
        const context = canvas.getContext("2d");
        context.fillStyle = getComputedStyle(document.body).getPropertyValue("--paper");
        context.fillRect(0, 0, canvas.width, canvas.height);
        context.drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob(resolve, "image/png");
      };
      image.src = `data:image/svg+xml,${encodeURIComponent(drawing(copy))}`;
    });
  const add = (figure) => {
    const svg = figure.querySelector(".chart svg");
    if (!svg || figure.querySelector(".files")) return;
    const title = figure.querySelector("h2, h3, h4")?.textContent ?? "chart";
    const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
    const data = figure.querySelector(".chart-data");
    const row = document.createElement("p");
    row.className = "files small";
    const offer = (kind, make) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind });
      button.setAttribute("aria-label", `${title} as ${kind}`);
      button.addEventListener("click", async () => save(`${name}.${kind.toLowerCase()}`, await make()));
      row.append(button, " ");
    };
    offer("SVG", () => new Blob([drawing(svg)], { type: "image/svg+xml" }));
    offer("PNG", () => paint(svg));
    if (data) offer("CSV", () => new Blob(["\ufeff", data.textContent], { type: "text/csv" }));
    figure.append(row);
  };
  const look = () => document.querySelectorAll("figure").forEach(add);
  new MutationObserver(look).observe(document.getElementById("main") ?? document.body, { childList: true, subtree: true });
  look();
}
