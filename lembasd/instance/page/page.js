// The page: lists from the API, events as they come. Nothing here is kept: a reload shows the same.

import { ask, attempt, button, byId, make, path, tell } from "/dom.js";
import { showCards } from "/cards.js";
import { Terminals } from "/terminals.js";
import { Transcript } from "/transcript.js";

// lines kept of the events as they come
const MAX_LOG_LINES = 200;
const LOGIN_POLL_MS = 3000;
const REFRESH_MS = 150;
const LOST = "The connection to the instance is lost; the page tries again.";
const CLOSED = "This page is closed; open the address that the instance printed at its start.";

const transcript = new Transcript(async (turnId) => {
  await ask(path("sessions", open, "turns", turnId, "again"), {});
  await loadTranscript();
  refreshSoon();
});
const typedCode = new URLSearchParams(location.search).get("user_code") || "";
let open = "";
// a terminal is seen in the place of a session
let inTerminal = false;
const terminals = new Terminals((shown) => {
  inTerminal = shown;
  drawSessions();
});
// histories asked for, and the last one whose answer is drawn or failed
let asked = 0;
let answered = 0;
let sessions = [];
let devices = [];
let cards = [];

const titleOf = (id) => {
  const session = sessions.find((one) => one.session_id === id);
  return session ? session.title || "New session" : id;
};

function fill(list, nodes, empty) {
  const children = nodes.length || !empty ? nodes : [make("li", { text: empty, class: "quiet" })];
  byId(list).replaceChildren(...children);
}

// ── devices and logins ──────────────────────────────────────────────────────────────────────────

function drawDevices() {
  fill("devices", devices.map((device) => {
    const line = make("li", {}, make("span", {
      text: device.name || device.id,
      class: `dot ${device.linked ? "on" : ""}`,
    }));
    const limits = device.limits;
    const about = !device.linked ? "not linked"
      : !limits.roots.length ? "allows no folder yet; run `lembas remote add DIR` and `lembas remote on` there"
        : `${limits.roots.join(", ")} · at most ${limits.max_mode}`;
    line.append(make("div", { text: about, class: "quiet" }));
    return line;
  }), "None yet.");
  const linked = devices.filter((device) => device.linked);
  const choice = byId("device-choice");
  const chosen = choice.value;
  choice.replaceChildren(...linked.map((device) => {
    const option = make("option", { text: device.name || device.id });
    option.value = device.id;
    return option;
  }));
  if (linked.some((device) => device.id === chosen)) choice.value = chosen;
  byId("device-label").hidden = linked.length < 2;
  byId("new-session-box").hidden = linked.length === 0;
  const cwd = byId("new-session").elements.cwd;
  const root = linked.flatMap((device) => (device.limits ? device.limits.roots : []))[0];
  if (root && !cwd.value) cwd.value = root;
}

async function showLogins() {
  const { logins } = await ask(path("logins"));
  byId("logins-section").hidden = logins.length === 0;
  fill("logins", logins.map((login) => {
    const decide = (approve) => async () => {
      await ask(path("logins", login.user_code), { approve });
      await showLogins();
    };
    const code = make("strong", { text: login.user_code, class: "code" });
    const about = login.user_code === typedCode ? "This is the code of the link that you followed." :
      "Approve it only when you see this code in your own terminal.";
    return make("li", {}, code,
      make("div", { text: `${login.client_id} asks for: ${login.scope}` }),
      make("div", { text: about, class: "quiet" }),
      make("div", { class: "buttons" }, button("Approve", decide(true), "primary"), button("Deny", decide(false), "danger")));
  }));
}

function drawSteps() {
  const linked = devices.some((device) => device.linked);
  const step = (text, code) => make("li", { text }, ...(code ? [make("br"), make("code", { text: code })] : []));
  const steps = devices.length === 0
    ? [step("Log a device in to this instance, in a terminal there:", `lembas login --server ${location.origin}`),
      step("Approve its code here."), step("Start the service on it:", "lembasd run")]
    : !linked ? [step("Start the service on your device:", "lembasd run")]
      : [step("Open a session on the left, in a directory that the device allows."),
        step("Ask for something."), step("Answer its cards here, when it asks.")];
  byId("steps").replaceChildren(...steps);
}

// ── sessions ────────────────────────────────────────────────────────────────────────────────────

function drawSessions() {
  const asking = new Set(cards.map((card) => card.session_id));
  fill("sessions", [...sessions].reverse().map((session) => {
    const state = asking.has(session.session_id) ? "asks" : session.status === "busy" ? "busy" : "";
    const node = button("", () => openSession(session.session_id));
    node.append(make("span", { text: titleOf(session.session_id), class: `dot ${state}` }),
      make("span", { text: session.cwd, class: "quiet" }));
    if (session.session_id === open && !inTerminal) node.setAttribute("aria-current", "true");
    return make("li", {}, node);
  }), "None yet.");
  const session = sessions.find((one) => one.session_id === open);
  byId("session").hidden = byId("prompt").hidden = !session || inTerminal;
  byId("welcome").hidden = Boolean(session) || inTerminal;
  if (!session) {
    // deleted, here or on its device
    open = "";
    return;
  }
  const device = devices.find((one) => one.id === session.device);
  const where = device && device.linked ? device.name : "its device is not linked";
  byId("session-title").textContent = titleOf(open);
  const held = session.at_terminal ? " · open in a terminal there" : "";
  byId("session-about").textContent = `${session.cwd} · ${where}${held} · ${session.status}`;
  byId("cancel").hidden = session.status !== "busy";
  if (session.mode && document.activeElement !== byId("mode")) byId("mode").value = session.mode;
}

// Events that come while the history is asked for are part of it.
async function loadTranscript() {
  const id = open;
  if (!id) return;
  const mine = ++asked;
  const rows = ask(path("sessions", id));
  const history = ask(path("sessions", id, "history"));
  const [about, told] = await Promise.allSettled([rows, history]);
  if (mine !== asked) return;
  answered = mine;
  transcript.fill(told.value ? told.value.turns : [], about.value ? about.value.turns : []);
  if (told.reason) transcript.notice(told.reason.message);
}

async function openSession(id) {
  open = id;
  inTerminal = false;
  terminals.hide();
  transcript.clear();
  drawSessions();
  byId("prompt-text").focus();
  await loadTranscript();
}

// ── what changes ────────────────────────────────────────────────────────────────────────────────

async function refresh() {
  const answers = await Promise.all([ask(path("devices")), ask(path("sessions")), ask(path("cards")), showLogins()]);
  // a login makes a device anew: those that are here come first
  devices = answers[0].devices.sort((one, other) => other.linked - one.linked);
  sessions = answers[1].sessions;
  cards = answers[2].cards;
  drawDevices();
  drawSteps();
  drawSessions();
  showCards(cards, titleOf);
  await terminals.refresh(devices);
}

let due = 0;
function refreshSoon() {
  if (due) return;
  due = setTimeout(() => {
    due = 0;
    refresh().catch((error) => tell(error.message));
  }, REFRESH_MS);
}

const log = [];
function keep(event) {
  const kind = event.params.event ? ` ${event.params.event.type}` : "";
  log.push(`${event.n}  ${event.method}${kind}  ${event.session_id || event.terminal_id || ""}`);
  if (log.length > MAX_LOG_LINES) log.shift();
  if (byId("log").open) drawLog();
}

function drawLog() {
  byId("log-lines").textContent = log.join("\n");
  byId("log-lines").scrollTop = byId("log-lines").scrollHeight;
}

const QUIET = new Set(["text", "reasoning", "tool_call_delta", "tool_start", "tool_end", "usage", "step", "progress"]);

function take(event) {
  // ACP's words for what `_lembas/event` says in full
  if (event.method === "session/update") return;
  keep(event);
  const said = event.params.event;
  if (event.session_id === open && asked === answered && said) transcript.draw(said);
  const ended = event.method === "instance/turn" && event.session_id === open;
  // what was said while a device was away is in its history alone
  const linked = event.method === "instance/device" && event.params.linked;
  if (event.method === "instance/delete_refused") {
    tell(`The device does not delete ${event.params.sessionId}: ${event.params.message}`);
  }
  if (event.method === "gap" || ended || linked) {
    loadTranscript().catch((error) => tell(error.message));
  }
  if (!said || !QUIET.has(said.type)) refreshSoon();
}

function follow() {
  const source = new EventSource(path("events"));
  source.addEventListener("message", (message) => take(JSON.parse(message.data)));
  source.addEventListener("open", () => {
    tell("");
    refreshSoon();
  });
  source.addEventListener("error", () => tell(source.readyState === EventSource.CLOSED ? CLOSED : LOST));
}

// ── what the person does ────────────────────────────────────────────────────────────────────────

byId("new-session").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const fields = submit.target.elements;
  attempt(async () => {
    const body = { cwd: fields.cwd.value, mode: fields.mode.value };
    if (fields.device.value) body.device = fields.device.value;
    const opened = await ask(path("sessions"), body);
    byId("new-session-box").open = false;
    await refresh();
    await openSession(opened.session_id);
  });
});

byId("prompt").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const input = byId("prompt-text");
  const text = input.value;
  if (!text.trim()) return;
  attempt(async () => {
    transcript.person(text, true);
    transcript.toEnd();
    await ask(path("sessions", open, "prompt"), { text });
    input.value = "";
    refreshSoon();
  });
});

byId("prompt-text").addEventListener("keydown", (key) => {
  if (key.key !== "Enter" || key.shiftKey || key.isComposing) return;
  key.preventDefault();
  byId("prompt").requestSubmit();
});

byId("cancel").addEventListener("click", () => attempt(() => ask(path("sessions", open, "cancel"), {})));
byId("delete").addEventListener("click", () => attempt(async () => {
  if (!confirm("Delete this session, here and on its device? The files that it worked on stay.")) return;
  await ask(path("sessions", open, "delete"), {});
  await refresh();
}));
byId("mode").addEventListener("change", () => attempt(async () => {
  await ask(path("sessions", open, "mode"), { mode: byId("mode").value });
  byId("mode").blur();
  refreshSoon();
}));
byId("log").addEventListener("toggle", drawLog);

attempt(async () => {
  const { demo } = await ask(path("about"));
  byId("demo").hidden = !demo;
  byId("demo").textContent = demo ? `Model: ${demo}` : "";
  await refresh();
});
// a login that begins is no event of a device's
setInterval(() => showLogins().catch(() => undefined), LOGIN_POLL_MS);
follow();
