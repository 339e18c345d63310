// Shows new decisions in a page as they come, and that an item does not wait any more.
// Texts are only ever set as text: nothing here makes markup of a string.
const story = document.querySelector(".live .story");
const item = document.querySelector(".decide[data-seen]");
const status = document.querySelector(".live .status, .over");
const button = document.querySelector(".live button");
const most = 200;
// Pages of a session are all under one path.
const place = "/" + location.pathname.split("/")[1];
let source = null;
let paused = false;
let missed = 0;
let seen = document.querySelector("[data-seen]")?.dataset.seen;

function make(name, text, className) {
  const element = document.createElement(name);
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function row(event) {
  const line = document.createElement("li");
  const link = make("a", event.name);
  link.setAttribute("href", place + event.path);
  link.setAttribute("aria-label", "Decision " + event.name);
  const known = ["accept", "hold", "reject"].includes(event.word) ? event.word : "event";
  line.append(link, " ", make("time", event.time), " ", make("span", event.word, "mark " + known), " ", make("bdi", event.line));
  return line;
}

function say(text) {
  if (status.textContent !== text) status.textContent = text;
}

// close takes the decision away that somebody else has made.
function close() {
  paused = true;
  rest();
  for (const field of document.querySelectorAll("main form button, main form input, main form textarea")) field.disabled = true;
  say("Somebody has decided about this item, or its deadline has passed. It does not wait any more.");
}

function take(message) {
  seen = message.total;
  if (item) {
    if (message.events.some((event) => place + event.over === location.pathname)) close();
    return;
  }
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
  source = new EventSource(place + "/events?from=" + encodeURIComponent(seen));
  source.onmessage = (e) => take(JSON.parse(e.data));
  source.onerror = () => {
    const over = source.readyState === EventSource.CLOSED;
    if (story) say(over ? "Not live: load the page again." : "The connection is lost; trying again.");
    rest();
    if (!over) setTimeout(listen, 2000);
  };
}

function rest() {
  if (source) source.close();
  source = null;
}

if (item && status) {
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  listen();
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

// A passkey signs what a form is about: to log in, or one decision about an item. What it
// signs is put together here, of what the page shows.
const utf8 = new TextEncoder();
const bytesOf = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const textOf = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const sha256 = async (content) => new Uint8Array(await crypto.subtle.digest("SHA-256", content));
const hex = (content) => Array.from(content, (b) => b.toString(16).padStart(2, "0")).join("");
const patience = 120_000;

async function decisionOf({ item, expires, digest, content }, act, reason) {
  let of = digest;
  if (act === "reject") of = hex(await sha256(utf8.encode(reason.value.trim())));
  else if (content !== undefined && hex(await sha256(bytesOf(content))) !== digest) throw new Error("What this page shows is not what its digest is of. Nothing was signed: tell the operator.");
  return "bcpmesh approval 1\nitem " + item + "\ndecision " + act + "\nsha256 " + of + "\nexpires " + expires + "\n";
}

// endorsementOf is what a form has signed that lets what comes later through.
function endorsementOf({ endorsement, kernel, tool, controller, reader, subscription, spec, codes, from, unit }, { uses, time, bits }) {
  const until = Number(from) + Number(time.value) * Number(unit);
  const about = kernel ? "\nkernel " + kernel + "\ntool " + tool : "\ncontroller " + controller + "\nreader " + reader + "\nsubscription " + subscription;
  return "bcpmesh endorsement 1\nid " + endorsement + about + "\nspec " + spec +
    "\ncodes " + codes + "\nuses " + Number(uses.value) + "\nbits " + Number(bits.value) + "\nuntil " + until + "\n";
}

// statementOf is what a form has signed. Of several items it has a line for each.
async function statementOf(form) {
  const { sign, nonce } = form.dataset;
  if (sign === "login") return "bcpmesh login 1\norigin " + location.origin + "\nnonce " + nonce + "\n";
  if (sign === "endorse") return endorsementOf(form.dataset, form.elements);
  const { reason } = form.elements;
  const salts = form.querySelectorAll("input[data-item]");
  if (salts.length === 0) return decisionOf(form.dataset, sign, reason);
  const leaves = [];
  for (const salt of salts) {
    salt.value = hex(crypto.getRandomValues(new Uint8Array(32)));
    leaves.push(hex(await sha256(utf8.encode((await decisionOf(salt.dataset, sign, reason)) + "salt " + salt.value + "\n"))) + "\n");
  }
  return "bcpmesh approvals 1\n" + leaves.sort().join("");
}

async function assert(form) {
  const { credential } = form.dataset;
  const challenge = await sha256(utf8.encode(await statementOf(form)));
  const allowCredentials = credential ? [{ type: "public-key", id: bytesOf(credential) }] : [];
  const got = await navigator.credentials.get({ publicKey: { challenge, allowCredentials, userVerification: "required", timeout: patience } });
  const fields = form.elements;
  fields.authenticator_data.value = textOf(got.response.authenticatorData);
  fields.client_data.value = textOf(got.response.clientDataJSON);
  fields.assertion.value = textOf(got.response.signature);
  if (fields.nonce) fields.nonce.value = form.dataset.nonce;
  if (fields.id) fields.id.value = textOf(got.rawId);
}

async function enrol(form) {
  const random = (n) => crypto.getRandomValues(new Uint8Array(n));
  const { name } = form.dataset;
  const made = await navigator.credentials.create({
    publicKey: {
      rp: { name: "bcpmesh" },
      user: { id: random(16), name, displayName: name },
      challenge: random(32),
      pubKeyCredParams: [-8, -7, -257].map((alg) => ({ type: "public-key", alg })),
      authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "required" },
      attestation: "none",
      timeout: patience,
    },
  });
  const key = made.response.getPublicKey();
  if (!key) throw new Error("This browser does not tell the public key of the passkey. Try another one.");
  form.elements.token.value = location.hash.slice(1);
  form.elements.id.value = textOf(made.rawId);
  form.elements.public_key.value = textOf(key);
}

for (const form of document.querySelectorAll("form[data-sign]")) {
  const said = form.querySelector(".status");
  said.textContent = window.PublicKeyCredential ? "" : "This browser has no passkeys, or this page did not come over TLS.";
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const buttons = form.querySelectorAll("button");
    buttons.forEach((b) => (b.disabled = true));
    said.textContent = "Waiting for your passkey.";
    try {
      await (form.dataset.sign === "enrol" ? enrol(form) : assert(form));
      form.submit();
    } catch (error) {
      said.textContent = error.name === "NotAllowedError" ? "Nothing was signed: it was cancelled, took too long, or this device has no such passkey." : error.message;
      buttons.forEach((b) => (b.disabled = false));
    }
  });
}
