"use strict";

// Everything that comes from outside is put in as textContent, never as markup.

const byId = (id) => document.getElementById(id);
let open = "";

function make(tag, text, ...children) {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
}

function button(text, action) {
  const node = make("button", text);
  node.type = "button";
  node.addEventListener("click", () => attempt(action));
  return node;
}

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error ? value.error.message : `answer ${answer.status}`);
  return value;
}

async function attempt(action) {
  const problem = byId("problem");
  try {
    problem.hidden = true;
    await action();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

function fill(list, nodes, empty) {
  const children = nodes.length || !empty ? nodes : [make("li", empty)];
  byId(list).replaceChildren(...children);
}

async function showDevices() {
  const { devices } = await ask("/api/local/devices");
  fill("devices", devices.map((device) => {
    const roots = device.limits ? device.limits.roots.join(", ") || "no folders allowed" : "";
    const state = device.linked ? "linked" : "not linked";
    const line = make("li", `${device.name || device.id}: ${state}`);
    if (roots) line.append(make("div", `${roots} · at most ${device.limits.max_mode}`));
    return line;
  }), "No device yet. Run `lembas login` with this instance's address.");
  const choice = byId("device-choice");
  const chosen = choice.value;
  choice.replaceChildren(...devices.filter((device) => device.linked).map((device) => {
    const option = make("option", device.name || device.id);
    option.value = device.id;
    return option;
  }));
  if (chosen) choice.value = chosen;
  if (choice.selectedIndex < 0) choice.selectedIndex = 0;
}

async function showLogins() {
  const { logins } = await ask("/api/local/logins");
  byId("logins-section").hidden = logins.length === 0;
  fill("logins", logins.map((login) => {
    const decide = (approve) => async () => {
      await ask(`/api/local/logins/${encodeURIComponent(login.user_code)}`, { approve });
      await showLogins();
    };
    return make("li", `${login.client_id} asks with the code ${login.user_code} for: ${login.scope} `,
      button("Approve", decide(true)), button("Deny", decide(false)));
  }));
}

async function showCards() {
  const { cards } = await ask("/api/local/cards");
  byId("cards-section").hidden = cards.length === 0;
  fill("cards", cards.map((card) => {
    const meta = (card.params._meta && card.params._meta.lembas) || {};
    const line = make("li", card.title);
    if (meta.reason) line.append(make("div", meta.reason));
    const input = card.params.toolCall.rawInput;
    if (input) line.append(make("pre", JSON.stringify(input, null, 2)));
    for (const option of card.params.options || []) {
      line.append(button(option.name || option.optionId, async () => {
        await ask(`/api/local/cards/${encodeURIComponent(card.tool_call_id)}`, { option: option.optionId });
        await showCards();
      }));
    }
    return line;
  }));
}

async function showSessions() {
  const { sessions } = await ask("/api/local/sessions");
  fill("sessions", sessions.map((session) => make("li", "", button(
    `${session.title || session.session_id} — ${session.cwd} — ${session.status}`,
    () => openSession(session.session_id),
  ))), "No session yet.");
}

async function showSession() {
  if (!open) return;
  const session = await ask(`/api/local/sessions/${encodeURIComponent(open)}`);
  byId("session").hidden = false;
  byId("session-title").textContent = `${session.title || session.session_id} (${session.status})`;
  fill("turns", session.turns.map((turn) => {
    const ended = turn.error ? turn.error.message : turn.answer ? turn.answer.stopReason : "";
    return make("li", turn.text, make("div", `${turn.state} ${ended}`));
  }));
}

async function openSession(id) {
  open = id;
  byId("live").textContent = "";
  await showSession();
  try {
    const { turns } = await ask(`/api/local/sessions/${encodeURIComponent(id)}/history`);
    const text = turns.map((turn) => turn.role === "user" ? `> ${turn.text}\n` : `${turn.text}\n`);
    byId("live").textContent = text.join("\n");
  } catch (error) {
    byId("live").textContent = `${error.message}\n`;
  }
}

function say(text) {
  const live = byId("live");
  // the page keeps the end of what was said; the device keeps all of it
  live.textContent = (live.textContent + text).slice(-200000);
  live.scrollTop = live.scrollHeight;
}

function draw(update) {
  const kind = update.sessionUpdate;
  if (kind === "agent_message_chunk" && update.content) say(update.content.text || "");
  else if (kind === "tool_call") say(`\n[${update.title || update.kind}]\n`);
  else if (kind === "tool_call_update" && update.status) say(`[${update.status}]\n`);
}

let due = 0;
function refreshSoon() {
  if (due) return;
  due = setTimeout(() => {
    due = 0;
    attempt(async () => {
      await Promise.all([showDevices(), showLogins(), showCards(), showSessions(), showSession()]);
    });
  }, 100);
}

function follow() {
  const source = new EventSource("/api/local/events");
  source.addEventListener("message", (message) => {
    const event = JSON.parse(message.data);
    if (event.method === "session/update") {
      if (event.session_id === open) draw(event.params.update || {});
      return;
    }
    if (event.method === "instance/turn" && event.session_id === open) say("\n");
    if (event.method !== "_lembas/event" && event.method !== "_lembas/terminal/output") refreshSoon();
  });
  source.addEventListener("open", refreshSoon);
}

function onSubmit(id, action) {
  byId(id).addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => action(event.target.elements, event.target));
  });
}

onSubmit("new-session", async (fields) => {
  const body = { cwd: fields.cwd.value, mode: fields.mode.value };
  if (fields.device.value) body.device = fields.device.value;
  const opened = await ask("/api/local/sessions", body);
  await showSessions();
  await openSession(opened.session_id);
});

onSubmit("prompt", async (fields, form) => {
  const text = fields.text.value;
  await ask(`/api/local/sessions/${encodeURIComponent(open)}/prompt`, { text });
  say(`> ${text}\n`);
  form.reset();
  refreshSoon();
});

byId("cancel").addEventListener("click", () => attempt(async () => {
  await ask(`/api/local/sessions/${encodeURIComponent(open)}/cancel`, {});
}));

attempt(async () => {
  const { demo } = await ask("/api/local/about");
  if (demo) {
    byId("demo").textContent = `Model: ${demo}`;
    byId("demo").hidden = false;
  }
});
// a login that begins is no event of a device's
setInterval(() => attempt(showLogins), 3000);
follow();
