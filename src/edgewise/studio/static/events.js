// One stream of events for all tabs of a browser: the tab that holds the lock opens it and passes events on to the others.
// Browsers have six connections to a server, which many tabs would use up.
const NAME = "edgewise-events";
const RETRY_MS = 5000;
const POLL_MS = 2000;
const listeners = new Set();
const channel = "BroadcastChannel" in window ? new BroadcastChannel(NAME) : null;
let last = "";
let begun = false;
let leading = false; // whether this tab has the stream
let open = false; // whether the stream is open, here or in the tab that has it

function take(event) {
  last = event.id;
  for (const listener of listeners) listener(event);
}

function tell(now) {
  open = now;
  channel?.postMessage({ kind: "stream", open });
}

function hear({ data }) {
  if (data.kind !== "stream") take(data);
  else if (data.open !== undefined) open = data.open;
  else if (leading) tell(open);
}

// Listen until the browser gives up, such as when it is no longer let in.
const listen = () => new Promise((done) => {
  const source = new EventSource(`/events?since=${encodeURIComponent(last)}`);
  for (const kind of ["job", "list"]) {
    source.addEventListener(kind, (message) => {
      const event = { kind, id: message.lastEventId, data: JSON.parse(message.data) };
      channel?.postMessage(event);
      take(event);
    });
  }
  source.addEventListener("open", () => tell(true));
  source.addEventListener("error", () => {
    tell(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(done, RETRY_MS);
  });
});

async function go() {
  leading = true;
  for (;;) await listen();
}

// Call `listener` with each event {kind, id, data}.
export function watch(listener) {
  listeners.add(listener);
  if (begun || !("EventSource" in window)) return;
  begun = true;
  if (channel) channel.onmessage = hear;
  channel?.postMessage({ kind: "stream" });
  if (channel && navigator.locks) navigator.locks.request(NAME, go);
  else go();
}

// Call `task` every two seconds while no stream is open: in browsers without streams, or behind a proxy that blocks them.
export function poll(task) {
  setInterval(() => open || document.hidden || task().catch(() => {}), POLL_MS);
}
