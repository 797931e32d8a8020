// One stream of events for all tabs of a browser: the tab that holds the lock opens it and passes events on to the others.
// Browsers have six connections to a server, which many tabs would use up.
const NAME = "edgewise-events";
const RETRY_MS = 5000;
const listeners = new Set();
const channel = "BroadcastChannel" in window ? new BroadcastChannel(NAME) : null;
let last = "";
let begun = false;

function take(event) {
  last = event.id;
  for (const listener of listeners) listener(event);
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
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(done, RETRY_MS);
  });
});

async function go() {
  for (;;) await listen();
}

// Call `listener` with each event {kind, id, data}; false where this browser has no streams.
export function watch(listener) {
  if (!("EventSource" in window)) return false;
  listeners.add(listener);
  if (begun) return true;
  begun = true;
  if (channel) channel.onmessage = (message) => take(message.data);
  if (channel && navigator.locks) navigator.locks.request(NAME, go);
  else go();
  return true;
}
