// Shows new decisions in a page as they come. Texts are only ever set as text: nothing
// here makes markup of a string.
const story = document.querySelector(".live .story");
const status = document.querySelector(".live .status");
const button = document.querySelector(".live button");
const most = 200;
let source = null;
let paused = false;
let missed = 0;
let seen = document.querySelector(".live")?.dataset.seen;

function make(name, text, className) {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function row(event) {
  const line = document.createElement("li");
  const link = make("a", event.name);
  link.setAttribute("href", event.path);
  link.setAttribute("aria-label", "Decision " + event.name);
  const known = ["accept", "hold", "reject"].includes(event.word) ? event.word : "event";
  line.append(link, " ", make("time", event.time), " ", make("span", event.word, "mark " + known), " ", make("bdi", event.line));
  return line;
}

function say(text) {
  if (status.textContent !== text) status.textContent = text;
}

function take(message) {
  seen = message.total;
  missed += message.missed || 0;
  for (const event of message.events) {
    if (event.path.startsWith("/decisions/")) story.prepend(row(event));
  }
  while (story.childElementCount > most) story.lastElementChild.remove();
  let text = missed > 0 ? "Live. " + missed + " more decisions are not shown; the audit has them." : "Live.";
  if (message.fault) text = message.fault;
  say(text);
}

function listen() {
  if (source || paused || document.hidden) return;
  source = new EventSource("/events?from=" + encodeURIComponent(seen));
  source.onmessage = (e) => take(JSON.parse(e.data));
  source.onerror = () => {
    const over = source.readyState === EventSource.CLOSED;
    say(over ? "Not live: load the page again." : "The connection is lost; trying again.");
    rest();
    if (!over) setTimeout(listen, 2000);
  };
}

function rest() {
  if (source) source.close();
  source = null;
}

if (story && status && button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (paused) {
      rest();
      say("Paused. Load the page again for what is missing.");
    } else {
      listen();
    }
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  listen();
}
