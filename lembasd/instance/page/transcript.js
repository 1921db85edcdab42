// What was said in one session: its history first, then its events as they come.

import { button, byId, make } from "/dom.js";

// characters shown of one tool's output or of one reply; the device keeps all of it
const MAX_SHOWN = 100000;

export class Transcript {
  // `again` asks once more for what the turn of an id asked for.
  constructor(again) {
    this.again = again;
    this.clear();
  }

  clear() {
    this.texts = new Map();
    this.tools = new Map();
    byId("transcript").replaceChildren();
  }

  add(node) {
    const box = byId("transcript");
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
    box.append(node);
    if (atEnd) box.scrollTop = box.scrollHeight;
    return node;
  }

  toEnd() {
    const box = byId("transcript");
    box.scrollTop = box.scrollHeight;
  }

  // `rows` are the instance's turns: what a history does not tell is how a turn ended, and what still waits.
  fill(turns, rows) {
    this.clear();
    const failed = new Map(rows.filter((row) => row.error).map((row) => [row.turn_id, row]));
    const known = new Set();
    let row;
    const close = () => {
      if (row) this.failed(row);
      row = undefined;
    };
    for (const turn of turns) {
      if (turn.role === "user") {
        close();
        known.add(turn.turnId);
        row = failed.get(turn.turnId);
        this.person(turn.text);
        continue;
      }
      if (turn.reasoning) this.thought(turn.reasoning);
      if (turn.text) this.add(make("div", { text: turn.text.slice(-MAX_SHOWN), class: "said" }));
      for (const tool of turn.tools || []) {
        this.toolStarted(tool.id, tool.name, tool.args);
        if (tool.output !== undefined && tool.output !== null) this.toolEnded(tool.id, tool.output, tool.isError);
      }
    }
    close();
    for (const row of rows) {
      if (known.has(row.turn_id)) continue;
      if (row.state !== "done") this.person(row.text, true);
      else if (row.error) {
        this.person(row.text);
        this.failed(row);
      }
    }
    this.toEnd();
  }

  person(text, waits = false) {
    this.add(make("div", { text, class: `said person${waits ? " waits" : ""}` }));
  }

  thought(text) {
    const box = make("details", { class: "thought" }, make("summary", { text: "Thoughts" }));
    const said = make("div", { text, class: "said" });
    box.append(said);
    this.add(box);
    return said;
  }

  problem(text) {
    this.add(make("div", { text, class: "error" }));
  }

  failed(row) {
    this.problem(row.error.message);
    this.add(make("div", { class: "buttons" }, button("Send again", () => this.again(row.turn_id))));
  }

  notice(text) {
    this.add(make("div", { text, class: "notice" }));
  }

  toolStarted(id, name, args) {
    const state = make("span", { text: "running", class: "state" });
    const command = args && (args.command || args.path);
    const summary = make("summary", {}, state, make("code", { text: command ? `${name}  ${command}` : name }));
    const box = make("details", { class: "tool" }, summary);
    if (args) box.append(make("pre", { text: JSON.stringify(args, null, 2) }));
    this.tools.set(id, { box, state });
    this.add(box);
  }

  toolEnded(id, output, isError) {
    const tool = this.tools.get(id);
    if (!tool) return;
    tool.state.textContent = isError ? "failed" : "done";
    tool.box.classList.toggle("failed", Boolean(isError));
    if (output) tool.box.append(make("pre", { text: output.slice(-MAX_SHOWN) }));
  }

  grow(id, text, begin) {
    let node = this.texts.get(id);
    if (!node) {
      node = begin();
      this.texts.set(id, node);
    }
    const box = byId("transcript");
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
    node.append(text);
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  // One engine event of the session (the link's `_lembas/event`).
  draw(event) {
    switch (event.type) {
      case "prompt":
        for (const node of byId("transcript").querySelectorAll(".waits")) {
          if (node.textContent === event.text) { node.remove(); break; }
        }
        return this.person(event.text);
      case "text":
        return this.grow(`text ${event.messageId}`, event.text, () => this.add(make("div", { class: "said" })));
      case "reasoning":
        return this.grow(`thought ${event.messageId}`, event.text, () => this.thought(""));
      case "retract": {
        const node = this.texts.get(`text ${event.messageId}`);
        this.texts.delete(`text ${event.messageId}`);
        return node && node.remove();
      }
      case "tool_start": return this.toolStarted(event.toolCallId, event.name, event.args);
      case "tool_end": return this.toolEnded(event.toolCallId, event.diff || event.output, event.isError);
      case "tool_denied": {
        if (!this.tools.has(event.toolCallId)) this.toolStarted(event.toolCallId, event.name);
        return this.toolEnded(event.toolCallId, event.reason, true);
      }
      case "notice": return this.notice(event.text);
      case "error": return this.problem(event.message);
      default: return undefined;
    }
  }
}
