// One terminal: xterm.js, and a WebSocket that comes back. What was drawn is said, so that its device sends no more than
// is seen and an interrupt is seen at once.

import "/styles_as_objects.js";
import { FitAddon } from "/vendor/addon-fit.mjs";
import { Terminal } from "/vendor/xterm.mjs";

const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 4000;
// said at least so often while much is drawn
const SAY_BYTES = 16384;
// typed while nobody is reached, and sent then; more is left out
const MAX_TYPED_AHEAD_BYTES = 65536;
// a page that nobody sees is given little time by its browser: after so long it lets the terminal run without it
const REST_MS = 15000;
const SCROLLBACK_LINES = 5000;
// what a terminal answers by itself when it is asked; of a replay the question was answered long ago
const ANSWER = /^(?:\x1b\[[?>=]?[\d;]*[cnRtuy$]+|\x1b[\]P].*)/s;

export class LiveTerminal {
  // `changed` is called when `state` is another: "", "lost", "away", "ended", "gone"
  constructor(host, changed) {
    this.host = host;
    this.changed = changed;
    this.state = "";
    this.code = null;
    this.id = "";
    this.got = 0;
    this.drawn = 0;
    this.said = 0;
    this.until = 0;
    this.retry = FIRST_RETRY_MS;
    this.closed = false;
    this.ahead = [];
    this.term = new Terminal({
      scrollback: SCROLLBACK_LINES,
      fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
      fontSize: 14,
      macOptionIsMeta: true,
      screenReaderMode: false,
      theme: { background: "#15181c", foreground: "#e4e7ea", cursor: "#5cc4a0" },
    });
    this.fit = new FitAddon();
    this.term.loadAddon(this.fit);
    this.term.open(host);
    this.term.attachCustomKeyEventHandler((key) => this.key(key));
    this.term.onData((text) => this.typed(text));
    this.term.onBinary((text) => this.send(Uint8Array.from(text, (one) => one.charCodeAt(0))));
    this.term.onResize(() => this.sendSize());
    this.term.onTitleChange((title) => {
      this.title = title;
      this.changed();
    });
    this.observer = new ResizeObserver(() => requestAnimationFrame(() => this.fits()));
    this.observer.observe(host);
    this.seen = () => this.rests();
    document.addEventListener("visibilitychange", this.seen);
    this.fits();
  }

  get size() {
    return { cols: this.term.cols, rows: this.term.rows };
  }

  fits() {
    if (!this.closed && this.host.offsetWidth && this.host.offsetHeight) this.fit.fit();
  }

  // ── the connection ────────────────────────────────────────────────────────────────────────────

  connect(id) {
    this.id = id;
    const url = new URL(`/api/local/terminals/${encodeURIComponent(id)}/live`, location.href);
    url.protocol = "ws:";
    if (this.got) url.searchParams.set("after", this.got);
    this.socket = new WebSocket(url);
    this.socket.binaryType = "arraybuffer";
    this.socket.addEventListener("message", (message) => this.hear(message.data));
    this.socket.addEventListener("close", () => this.lost());
  }

  rests() {
    clearTimeout(this.restTimer);
    if (document.hidden) {
      this.restTimer = setTimeout(() => {
        this.resting = true;
        this.socket?.close();
      }, REST_MS);
    } else if (this.resting) {
      this.resting = false;
      if (this.id && this.state !== "ended" && this.state !== "gone") this.connect(this.id);
    }
  }

  lost() {
    this.greeted = false;
    if (this.closed || this.resting || this.state === "ended" || this.state === "gone") return;
    this.become("lost");
    this.timer = setTimeout(() => this.connect(this.id), this.retry);
    this.retry = Math.min(this.retry * 2, LAST_RETRY_MS);
  }

  hear(data) {
    if (typeof data === "string") {
      this.told(JSON.parse(data));
      return;
    }
    const bytes = new Uint8Array(data);
    this.got += bytes.length;
    this.term.write(bytes, () => this.drew(bytes.length));
  }

  told(said) {
    if (said.from !== undefined) {
      this.retry = FIRST_RETRY_MS;
      if (said.from !== this.got) this.term.reset();
      this.got = this.drawn = this.said = said.from;
      this.until = said.until;
      this.greeted = true;
      this.become("");
      this.sendSize();
      this.sendAhead();
    } else if (said.lost !== undefined) {
      this.got += said.lost;
      this.drawn += said.lost;
    } else if (said.away !== undefined) {
      this.become(said.away ? "away" : "");
      if (!said.away) {
        this.sendSize();
        this.sendAhead();
      }
    } else if (said.exit !== undefined) {
      this.code = said.exit;
      this.become("ended");
    }
  }

  drew(count) {
    this.drawn += count;
    if (this.drawn !== this.got && this.drawn - this.said < SAY_BYTES) return;
    this.said = this.drawn;
    this.tell({ shown: this.drawn });
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.term.options.disableStdin = state === "ended" || state === "gone";
    this.changed();
  }

  // ── the person ────────────────────────────────────────────────────────────────────────────────

  key(key) {
    if (key.type !== "keydown" || !key.ctrlKey || !key.shiftKey) return true;
    if (key.code === "KeyC") {
      if (this.term.hasSelection()) navigator.clipboard.writeText(this.term.getSelection());
      key.preventDefault();
      return false;
    }
    // the browser pastes; arrows leave the terminal for its tabs
    if (key.code === "KeyV") return false;
    if (key.code === "ArrowUp") {
      this.leave?.();
      return false;
    }
    return true;
  }

  typed(text) {
    if (this.drawn < this.until && ANSWER.test(text)) return;
    this.send(new TextEncoder().encode(text));
  }

  send(bytes) {
    if (this.isThere) this.socket.send(bytes);
    else if (this.ahead.reduce((sum, one) => sum + one.length, bytes.length) <= MAX_TYPED_AHEAD_BYTES) this.ahead.push(bytes);
  }

  sendAhead() {
    for (const bytes of this.ahead.splice(0)) this.send(bytes);
  }

  tell(value) {
    if (this.isOpen) this.socket.send(JSON.stringify(value));
  }

  // the terminal takes what is typed
  get isThere() {
    return this.isOpen && this.greeted && this.state === "";
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  sendSize() {
    if (this.host.offsetWidth) this.tell(this.size);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    clearTimeout(this.restTimer);
    document.removeEventListener("visibilitychange", this.seen);
    this.observer.disconnect();
    this.socket?.close();
    this.term.dispose();
  }
}
