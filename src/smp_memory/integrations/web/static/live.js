// Listen to the changes of the store, and show whether the connection stands.
const light = document.getElementById("live");

function show(state, text) {
  light.dataset.state = state;
  light.lastElementChild.textContent = text;
}

export function listen({ onChange, onReconnect }) {
  const source = new EventSource("/events");
  let wasOpen = false;
  source.addEventListener("hello", () => {
    show("on", "live");
    if (wasOpen) onReconnect();
    wasOpen = true;
  });
  source.addEventListener("change", (event) => {
    show("on", "live");
    onChange(JSON.parse(event.data));
  });
  source.addEventListener("trouble", (event) => show("bad", JSON.parse(event.data).message));
  source.addEventListener("error", () => show("off", "not connected"));
  addEventListener("pagehide", () => source.close());
}
