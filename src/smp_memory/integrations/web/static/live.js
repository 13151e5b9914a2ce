// Listen to the changes of the store, and show whether the connection stands.
// A browser opens six connections to a server at most, for all its tabs together. So one tab listens, the one that has the lock, and tells the
// others; when it is closed, the lock and with it the task pass on to another one.
const NAME = "smp-live";
const RETRY_MILLISECONDS = 2000;
const light = document.getElementById("live");

function show(state, text) {
  light.dataset.state = state;
  light.lastElementChild.textContent = text;
}

export function listen({ onChange, onReconnect }) {
  const others = new BroadcastChannel(NAME);
  let wasOpen = false;
  let source = null; // of the tab that listens
  let last = ["lost", null]; // what it has heard last

  function hear(event, data) {
    if (event === "hello") {
      show("on", "live");
      if (wasOpen) onReconnect();
      wasOpen = true;
    } else if (event === "change") {
      show("on", "live");
      onChange(data);
    } else if (event === "trouble") {
      show("bad", data.message);
    } else if (event === "lost") {
      show("off", "not connected");
    }
  }

  function tell(event, data) {
    last = event === "change" ? ["hello", {}] : [event, data];
    others.postMessage({ event, data });
    hear(event, data);
  }

  function connect(signal) {
    if (signal.aborted) return;
    source = new EventSource("/events");
    for (const name of ["hello", "change", "trouble"]) source.addEventListener(name, (event) => tell(name, JSON.parse(event.data)));
    source.addEventListener("error", () => {
      tell("lost", null);
      if (source?.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MILLISECONDS, signal); // refused: a browser tries only broken ones again
    });
  }

  // A tab that comes asks for the state; for it alone the answer is news.
  others.addEventListener("message", ({ data: { event, data, isState } }) => {
    if (event === "ask") { if (source) others.postMessage({ event: last[0], data: last[1], isState: true }); }
    else if (!isState || !wasOpen) hear(event, data);
  });

  function start() {
    const stop = new AbortController();
    const { signal } = stop;
    const hold = () => new Promise((release) => {
      connect(signal);
      signal.addEventListener("abort", () => { source?.close(); source = null; release(); });
    });
    if (navigator.locks) navigator.locks.request(NAME, { signal }, hold).catch(() => { /* the page is left while it waits */ });
    else hold();
    others.postMessage({ event: "ask" });
    addEventListener("pagehide", () => stop.abort(), { once: true });
  }

  start();
  addEventListener("pageshow", (event) => { if (event.persisted) { start(); onReconnect(); } });
}
