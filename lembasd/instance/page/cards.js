// The permission requests that wait for the person.

import { ask, button, byId, make, path } from "/dom.js";

const shown = new Map();

const keyOf = (card) => JSON.stringify([card.device, card.session_id, card.tool_call_id]);

// A card that stays is left alone: somebody may be typing in it.
export function showCards(cards, titleOf) {
  const keys = new Set(cards.map(keyOf));
  for (const [key, node] of shown) {
    if (!keys.has(key)) {
      node.remove();
      shown.delete(key);
    }
  }
  for (const card of cards) {
    const key = keyOf(card);
    if (shown.has(key)) continue;
    const node = draw(card, titleOf(card.session_id));
    shown.set(key, node);
    byId("cards").append(node);
  }
}

function field(label, rows) {
  const input = make("textarea");
  input.rows = rows;
  return { input, node: make("label", { text: label }, input) };
}

// As many rows as show all of a command, so that no part of one stands where it is not looked for.
function rowsOf(command) {
  const rows = command.split("\n").reduce((sum, line) => sum + 1 + Math.floor(line.length / 60), 0);
  return Math.min(Math.max(rows, 2), 30);
}

function draw(card, title) {
  const meta = (card.params._meta && card.params._meta.lembas) || {};
  const raw = card.params.toolCall.rawInput || {};
  const node = make("div", { class: "card" }, make("strong", { text: `May it? ${card.title}` }));
  node.append(make("div", { text: [title, meta.reason].filter(Boolean).join(" · "), class: "quiet" }));
  // the model's words, told apart from ours
  if (meta.purpose) node.append(make("div", { text: `The model says: “${meta.purpose}”`, class: "quiet" }));
  const command = typeof raw.command === "string" ? field("Command (you may correct it)", rowsOf(raw.command)) : null;
  if (command) {
    command.input.value = raw.command;
    node.append(command.node);
  } else {
    node.append(make("pre", { text: JSON.stringify(raw, null, 2) }));
  }
  const feedback = field("If not: why (the model reads it)", 1);
  const buttons = make("div", { class: "buttons" });
  for (const option of card.params.options || []) {
    const denies = option.optionId === "deny";
    buttons.append(button(option.name || option.optionId, async () => {
      const answer = { option: option.optionId, session_id: card.session_id };
      const corrected = command && command.input.value;
      if (option.optionId === "once" && corrected && corrected !== raw.command) answer.command = corrected;
      if (denies && feedback.input.value.trim()) answer.feedback = feedback.input.value.trim();
      await ask(path("cards", card.tool_call_id), answer);
    }, denies ? "danger" : option.optionId === "once" ? "primary" : ""));
  }
  node.append(feedback.node, buttons);
  return node;
}
