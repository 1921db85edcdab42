// The terminals of the page as tabs. Those that run are the instance's to know: a reload shows them again.

import { ask, attempt, button, byId, make, path, tell } from "/dom.js";

const MAX_TABS = 4;
const STATES = {
  lost: "the instance is not reached; the page tries again",
  away: "its device is not linked; the terminal waits five minutes for it",
  gone: "the instance knows this terminal no more",
};
// keys that a phone's keyboard has not
const KEYS = [["Esc", "\x1b"], ["Tab", "\t"], ["Ctrl-C", "\x03"], ["Ctrl-D", "\x04"], ["←", "\x1b[D"], ["↑", "\x1b[A"],
  ["↓", "\x1b[B"], ["→", "\x1b[C"]];

export class Terminals {
  // `shown` is called when a terminal takes the place of a session
  constructor(shown) {
    this.shown = shown;
    this.tabs = [];
    this.current = null;
    this.devices = [];
    // ids that a tab is being made for
    this.adding = new Set();
    // terminals whose id is not there yet
    this.opening = 0;
    byId("new-terminal").addEventListener("submit", (submit) => {
      submit.preventDefault();
      attempt(() => this.open());
    });
    byId("terminal-keys").append(...KEYS.map(([name, keys]) => {
      const node = button(name, () => this.current?.live.term.input(keys));
      // the keyboard of a phone stays where it is
      node.addEventListener("pointerdown", (down) => down.preventDefault());
      return node;
    }));
    byId("terminal-tabs").addEventListener("keydown", (key) => this.tabKey(key));
  }

  // ── which there are ───────────────────────────────────────────────────────────────────────────

  async refresh(devices) {
    this.devices = devices;
    const { terminals } = await ask(path("terminals"));
    const kept = new Set(terminals.map((one) => one.terminal_id));
    for (const tab of this.tabs) {
      if (tab.live.id && !kept.has(tab.live.id) && tab.live.state !== "ended") tab.live.become("gone");
    }
    for (const one of terminals) {
      const id = one.terminal_id;
      const known = this.adding.has(id) || this.tabs.some((tab) => tab.live.id === id);
      if (!known && !this.opening && !one.exited && this.tabs.length + this.adding.size < MAX_TABS) await this.add(one);
    }
    this.draw();
  }

  async open() {
    if (this.tabs.length >= MAX_TABS) throw new Error("Four terminals are open; close one first.");
    const fields = byId("new-terminal").elements;
    this.opening += 1;
    let tab = null;
    try {
      tab = await this.make(fields.cwd.value);
      this.show(tab);
      tab.live.fits();
      const body = { ...tab.live.size };
      if (fields.cwd.value) body.cwd = fields.cwd.value;
      if (fields.device.value) body.device = fields.device.value;
      const opened = await ask(path("terminals"), body);
      tab.cwd = opened.cwd;
      tab.live.connect(opened.terminal_id);
      byId("new-terminal-box").open = false;
    } catch (error) {
      if (tab) this.drop(tab);
      throw error;
    } finally {
      this.opening -= 1;
      this.draw();
    }
  }

  async add(one) {
    this.adding.add(one.terminal_id);
    try {
      const tab = await this.make(one.cwd);
      tab.live.connect(one.terminal_id);
    } finally {
      this.adding.delete(one.terminal_id);
    }
  }

  async make(cwd) {
    const { LiveTerminal } = await import("/terminal.js");
    const host = make("div", { class: "terminal-host" });
    host.hidden = true;
    byId("terminal-hosts").append(host);
    const tab = { cwd, host };
    tab.live = new LiveTerminal(host, () => this.draw());
    tab.live.leave = () => byId("terminal-tabs").querySelector("[aria-selected=true]")?.focus();
    this.tabs.push(tab);
    return tab;
  }

  drop(tab) {
    tab.live.close();
    tab.host.remove();
    const at = this.tabs.indexOf(tab);
    this.tabs.splice(at, 1);
    if (this.current === tab) {
      this.current = null;
      if (this.tabs.length) this.show(this.tabs[Math.max(0, at - 1)]);
      else this.shown(false);
    }
    this.draw();
  }

  async close(tab) {
    if (tab.live.id && !["ended", "gone"].includes(tab.live.state)) {
      await ask(path("terminals", tab.live.id, "close"), {}).catch((error) => tell(error.message));
    }
    this.drop(tab);
  }

  // ── what is seen ──────────────────────────────────────────────────────────────────────────────

  show(tab) {
    this.current = tab;
    this.shown(true);
    this.draw();
    tab.live.fits();
    tab.live.term.focus();
  }

  hide() {
    this.current = null;
    this.draw();
  }

  nameOf(tab) {
    const folder = tab.cwd.split("/").filter(Boolean).pop() || "terminal";
    return `${this.tabs.indexOf(tab) + 1} ${tab.live.title || folder}`;
  }

  draw() {
    byId("terminal-section").hidden = !this.current;
    for (const tab of this.tabs) tab.host.hidden = tab !== this.current;
    byId("terminal-tabs").replaceChildren(...this.tabs.map((tab) => this.tabNode(tab)));
    byId("terminals").replaceChildren(...(this.tabs.length ? this.tabs.map((tab) => {
      const node = button("", () => this.show(tab));
      const dot = tab.live.state === "" ? "on" : tab.live.state === "ended" ? "" : "asks";
      node.append(make("span", { text: this.nameOf(tab), class: `dot ${dot}` }));
      if (tab === this.current) node.setAttribute("aria-current", "true");
      return make("li", {}, node);
    }) : [make("li", { text: "None open.", class: "quiet" })]));
    byId("terminal-state").textContent = this.current ? this.stateOf(this.current) : "";
    byId("terminal-state").hidden = !byId("terminal-state").textContent;
    this.drawForm();
  }

  stateOf({ live }) {
    if (live.state !== "ended") return STATES[live.state] || "";
    return live.code === null ? "The terminal has ended." : `The shell has ended with exit code ${live.code}.`;
  }

  tabNode(tab) {
    const selected = tab === this.current;
    const name = this.nameOf(tab);
    const node = make("button", { text: name });
    node.type = "button";
    node.setAttribute("role", "tab");
    node.setAttribute("aria-selected", String(selected));
    node.tabIndex = selected ? 0 : -1;
    node.addEventListener("click", () => this.show(tab));
    const close = button("×", () => this.close(tab));
    close.setAttribute("aria-label", `Close ${name}`);
    return make("span", { class: "tab" }, node, close);
  }

  tabKey(key) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key.key];
    if (!step || !this.current) return;
    const at = (this.tabs.indexOf(this.current) + step + this.tabs.length) % this.tabs.length;
    this.show(this.tabs[at]);
  }

  drawForm() {
    const linked = this.devices.filter((device) => device.linked);
    const able = linked.filter((device) => device.capabilities.includes("terminal"));
    byId("new-terminal-box").hidden = able.length === 0;
    byId("terminals-off").hidden = able.length > 0 || linked.length === 0;
    const choice = byId("terminal-device");
    const chosen = choice.value;
    choice.replaceChildren(...able.map((device) => {
      const option = make("option", { text: device.name || device.id });
      option.value = device.id;
      return option;
    }));
    if (able.some((device) => device.id === chosen)) choice.value = chosen;
    byId("terminal-device-label").hidden = able.length < 2;
  }
}
